#include "daemon/loader/job_clock.h"

#define TRACE_LEAST_NS 1000u // shorter times are not worth an event

void job_clock_start(struct job_clock *clock, struct stats_loader *stats, struct trace_writer *trace) {
    *clock = (struct job_clock){.stats = stats, .trace = trace, .looked_ns = monotonic_ns()};
}

static void date(struct job_clock *clock, struct job_clock_ends *ends, enum loader_latency kind,
                 uint64_t now) {
    const enum trace_kind traced = kind == LOADER_LATENCY_read ? TRACE_READ : TRACE_CHUNK;
    for (uint32_t i = 0; i < ends->count; i++) {
        latency_add(&clock->stats->latencies[kind], now - ends->claimed_ns[i], 1);
        trace_write(clock->trace, traced, ends->claimed_ns[i], now, 0);
    }
    ends->count = 0;
}

static void trace_spent(struct job_clock *clock, enum loader_counter counter, uint64_t now) {
    const enum trace_kind kind = counter == LOADER_io_wait_ns     ? TRACE_STORAGE
                                 : counter == LOADER_room_wait_ns ? TRACE_ROOM
                                 : counter == LOADER_decode_ns    ? TRACE_DECODE
                                                                  : TRACE_FILL;
    if (now - clock->looked_ns >= TRACE_LEAST_NS)
        trace_write(clock->trace, kind, clock->looked_ns, now, 0);
}

void job_clock_spend_until(struct job_clock *clock, enum loader_counter counter, uint64_t now) {
    stats_add(&clock->stats->counters[counter], now - clock->looked_ns);
    if (trace_is_on(clock->trace))
        trace_spent(clock, counter, now);
    clock->looked_ns = now;
    date(clock, &clock->read, LOADER_LATENCY_read, now);
    date(clock, &clock->filled, LOADER_LATENCY_fill, now);
}

uint64_t job_clock_spend(struct job_clock *clock, enum loader_counter counter) {
    uint64_t now = monotonic_ns();
    job_clock_spend_until(clock, counter, now);
    return now;
}

static void end(struct job_clock *clock, struct job_clock_ends *ends, uint64_t claimed_ns) {
    if (ends->count == JOB_CLOCK_ENDED)
        job_clock_spend(clock, LOADER_fill_ns);
    ends->claimed_ns[ends->count++] = claimed_ns;
}

void job_clock_read(struct job_clock *clock, uint64_t claimed_ns) {
    end(clock, &clock->read, claimed_ns);
}

void job_clock_filled(struct job_clock *clock, uint64_t claimed_ns) {
    end(clock, &clock->filled, claimed_ns);
}

void job_clock_waits(struct job_clock *clock) {
    if (!clock->room_ns)
        clock->room_ns = clock->looked_ns;
}

void job_clock_works(struct job_clock *clock) {
    if (!clock->room_ns)
        return;
    latency_add(&clock->stats->latencies[LOADER_LATENCY_room], clock->looked_ns - clock->room_ns, 1);
    clock->room_ns = 0;
}

void job_clock_count_cpu(struct job_clock *clock) {
    struct timespec used;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) < 0)
        return;
    // Only this process writes it, and its record was 0 when it started.
    atomic_store_explicit(&clock->stats->counters[LOADER_cpu_ns],
                          (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec, memory_order_relaxed);
}
