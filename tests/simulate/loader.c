#include "tests/simulate/loader.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>

#include "daemon/heritage.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "tests/simulate/daemon.h"
#include "tests/simulate/defects.h"
#include "tests/simulate/network.h"
#include "tests/simulate/storage.h"

#define READS_MOST   4u
#define ROUND_NS     (100 * NS_PER_MS) // how long a loader with reads in flight waits before it looks for more
#define LATE_MOST_NS (3 * NS_PER_S)    // how long a read can outlive its process

// The mapping that the loaders of a ring share.
struct mapping {
    LIST_ENTRY(mapping) link;
    struct ring ring;
    const struct ring_header *control; // as the supervisor has it mapped
    enum dataset_kind dataset;
    uint32_t references;
};

enum read_phase {
    READ_NONE,
    READ_SENT,    // nothing has arrived yet
    READ_HALF,    // half of the bytes have
    READ_PLACED,  // all of them; the chunk is to be reported
    READ_REPORTED // the supervisor is to be woken
};

struct read {
    enum read_phase phase;
    uint64_t due_ns;
    uint64_t half_ns;
    struct ring_claim claim;
    uint64_t samples[CLAIM_MOST];
    uint32_t skipped;
    uint64_t failed_sample;
    bool failed;
};

struct loader {
    LIST_ENTRY(loader) link;
    struct actor actor;
    struct process *process; // NULL: nobody knows of it
    struct mapping *mapping;
    struct ring ring;
    struct stats_loader *record;
    uint32_t serial;
    int event_fd;
    bool runs, asleep, moved;
    uint64_t stands_still_ns, orphan_until_ns;
    struct read reads[READS_MOST];
};

static LIST_HEAD(, loader) loaders;
static LIST_HEAD(, mapping) mappings;

int __wrap_process_start(struct process *process, const struct process_start *start, struct error *error);
void __wrap_process_stop(struct process *process);
void __wrap_process_kill(struct process *process);
void __wrap_process_watch(struct process *process, uint64_t now, uint64_t stop_timeout_ns);
void __wrap_process_release(struct process *process);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

void loaders_begin(void) {
    LIST_INIT(&loaders);
    LIST_INIT(&mappings);
}

bool loaders_gone(void) {
    return LIST_EMPTY(&loaders);
}

void loaders_describe(void) {
    const struct loader *loader;
    LIST_FOREACH(loader, &loaders, link)
        fprintf(stderr, "  loader %u %s%s, process %s, %u references\n", loader->serial,
                loader->runs ? "runs" : "has ended", loader->asleep ? " and sleeps" : "",
                loader->process ? process_state_name(loader->process->state) : "unknown",
                loader->mapping->references);
}

// ---- The ring, mapped once for all of its loaders ----------------------------------------------------------

static enum dataset_kind kind_of(const struct dataset *dataset) {
    uint32_t kind = 0;
    while (strcmp(dataset_plans[kind].name, dataset->name) != 0)
        SIM_MUST(++kind < DATASETS);
    return (enum dataset_kind)kind;
}

static struct mapping *map(const struct served_feed *feed, int fd) {
    struct mapping *mapping;
    struct error error = {0};
    LIST_FOREACH(mapping, &mappings, link)
        if (mapping->control == feed->ring.header)
            break;
    if (!mapping) {
        mapping = calloc(1, sizeof *mapping);
        SIM_MUST(mapping && ring_map(&mapping->ring, fd, RING_FILL, &error) == 0);
        mapping->control = feed->ring.header;
        mapping->dataset = kind_of(feed->dataset);
        LIST_INSERT_HEAD(&mappings, mapping, link);
    }
    mapping->references++;
    return mapping;
}

static void unmap(struct mapping *mapping) {
    if (--mapping->references)
        return;
    LIST_REMOVE(mapping, link);
    ring_unmap(&mapping->ring);
    free(mapping);
}

// ---- Reads -------------------------------------------------------------------------------------------------

static void soon(struct read *read, enum read_phase phase, uint64_t most_us) {
    read->phase = phase;
    read->due_ns = sim.now_ns + sim_below(1 + most_us * NS_PER_US);
}

// Which of its samples cannot be read shows when all have arrived.
static void mark_unreadable(struct loader *loader, struct read *read) {
    enum dataset_kind dataset = loader->mapping->dataset;
    for (uint32_t i = 0; i < read->claim.count; i++) {
        uint64_t sample = read->samples[i];
        enum quality quality = storage_quality(dataset, sample);
        if (quality == SAMPLE_GOOD || (quality == SAMPLE_FLAKY && sim_chance(500)))
            continue;
        if (dataset == DATASET_STRICT) {
            read->failed = true;
            read->failed_sample = sample;
            return;
        }
        ring_skip_sample(&loader->ring, &read->claim, read->claim.first_sample + i);
        read->skipped++;
    }
}

static void place(struct loader *loader, struct read *read) {
    if (read->claim.chunk == RING_REPAIR_CHUNK) {
        ring_repair(&loader->ring, &read->claim);
    } else {
        storage_write(&loader->ring, &read->claim, read->samples, true);
        if (loader->runs)
            mark_unreadable(loader, read);
    }
    if (loader->runs)
        soon(read, READ_PLACED, 5);
    else
        read->phase = READ_NONE;
}

static void report(struct loader *loader, struct read *read) {
    const struct ring_claim *claim = &read->claim;
    bool wake;
    if (read->failed)
        wake = ring_chunk_failed(&loader->ring, claim, -EIO, 0, read->failed_sample, read->failed_sample);
    else
        wake = ring_chunk_done(&loader->ring, claim, read->skipped);
    if (loader->record)
        stats_add(&loader->record->counters[LOADER_samples], claim->count);
    if (wake)
        soon(read, READ_REPORTED, 3);
    else
        read->phase = READ_NONE;
    loader->moved = true;
}

static void wake_supervisor(struct loader *loader, struct read *read) {
    const uint64_t one = 1;
    read->phase = READ_NONE;
    SIM_MUST(write(loader->event_fd, &one, sizeof one) == sizeof one);
    daemon_wake(network_delay());
}

static void advance(struct loader *loader, struct read *read) {
    if (read->phase == READ_NONE || read->due_ns > sim.now_ns)
        return;
    if (read->phase == READ_SENT) {
        if (read->claim.chunk != RING_REPAIR_CHUNK)
            storage_write(&loader->ring, &read->claim, read->samples, false);
        read->phase = READ_HALF;
        read->due_ns = sim.now_ns + read->half_ns;
    } else if (read->phase == READ_HALF) {
        place(loader, read);
    } else if (read->phase == READ_PLACED) {
        report(loader, read);
    } else {
        wake_supervisor(loader, read);
    }
}

// True: there was something to claim.
static bool claim(struct loader *loader, struct read *read) {
    *read = (struct read){0};
    if (!ring_claim(&loader->ring, loader->serial, &read->claim))
        return false;
    bool repair = read->claim.chunk == RING_REPAIR_CHUNK;
    uint64_t latency = repair ? sim_below(50 * NS_PER_US) : storage_latency();
    if (!repair)
        storage_samples(&loader->ring, &read->claim, read->samples);
    read->phase = READ_SENT;
    read->half_ns = latency == NEVER ? 0 : latency / 2;
    read->due_ns = latency == NEVER ? NEVER : sim.now_ns + latency - latency / 2;
    return true;
}

// ---- The process -------------------------------------------------------------------------------------------

static uint32_t reads_in_flight(const struct loader *loader) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < READS_MOST; i++)
        count += loader->reads[i].phase != READ_NONE;
    return count;
}

static void free_loader(struct loader *loader) {
    actor_remove(&loader->actor);
    LIST_REMOVE(loader, link);
    close_fd(&loader->event_fd);
    unmap(loader->mapping);
    free(loader);
}

// The kernel may still be finishing its reads.
static void end_process(struct loader *loader, int signal) {
    sim_trace("loader %u: ends with signal %d", loader->serial, signal);
    loader->runs = false;
    loader->asleep = false;
    loader->record = NULL;
    for (uint32_t i = 0; i < READS_MOST; i++) {
        struct read *read = &loader->reads[i];
        bool late = (read->phase == READ_SENT || read->phase == READ_HALF) &&
                    read->claim.chunk != RING_REPAIR_CHUNK;
        if (!late)
            read->phase = READ_NONE;
        else
            read->due_ns = min_u64(read->due_ns, sim.now_ns + sim_below(LATE_MOST_NS));
    }
    if (loader->process) {
        loader->process->state = defect_is(DEFECT_EARLY_RECOVERY) ? PROCESS_GONE : PROCESS_EXITED;
        loader->process->exit_signal = signal;
        loader->process->ended_ns = sim.now_ns;
        loader->process->changed(loader->process);
        daemon_wake(network_delay());
    }
    actor_wake(&loader->actor, network_delay());
}

static void schedule_reads(struct loader *loader) {
    for (uint32_t i = 0; i < READS_MOST; i++)
        if (loader->reads[i].phase != READ_NONE)
            loader->actor.due_ns = min_u64(loader->actor.due_ns, loader->reads[i].due_ns);
}

// After the last read, nothing of it is left.
static void act_late(struct loader *loader) {
    for (uint32_t i = 0; i < READS_MOST; i++)
        advance(loader, &loader->reads[i]);
    if (reads_in_flight(loader)) {
        schedule_reads(loader);
        return;
    }
    if (!loader->process) {
        free_loader(loader);
        return;
    }
    if (loader->process->state == PROCESS_GONE)
        return; // to be released
    loader->process->state = PROCESS_GONE;
    loader->process->changed(loader->process);
    daemon_wake(network_delay());
}

static void act_running(struct loader *loader) {
    bool more = true, ending = loader->process && loader->process->state == PROCESS_STOPPING;
    for (uint32_t i = 0; i < READS_MOST; i++)
        advance(loader, &loader->reads[i]);
    for (uint32_t i = 0; i < READS_MOST && more && !ending; i++)
        if (loader->reads[i].phase == READ_NONE)
            more = claim(loader, &loader->reads[i]);
    if (reads_in_flight(loader))
        actor_wake(&loader->actor, ROUND_NS);
    else if (ending)
        end_process(loader, 0);
    else if (ring_announce_sleep(&loader->ring))
        actor_wake(&loader->actor, sim_below(2 * NS_PER_US));
    else
        loader->asleep = true; // nothing but a wake-up helps: in reality it would look again after a while
    schedule_reads(loader);
    if (!loader->process && loader->runs)
        actor_wake(&loader->actor, loader->orphan_until_ns - sim.now_ns);
}

static void act(struct actor *actor) {
    struct loader *loader = CONTAINER_OF(actor, struct loader, actor);
    bool killed = loader->process && loader->process->state == PROCESS_KILLED;
    bool orphan_ends = !loader->process && sim.now_ns >= loader->orphan_until_ns;
    if (loader->runs && (killed || orphan_ends)) {
        end_process(loader, 9);
        return;
    }
    if (loader->runs && sim.now_ns < loader->stands_still_ns) {
        actor_wake(actor, loader->stands_still_ns - sim.now_ns);
        return;
    }
    loader->asleep = false;
    if (loader->runs)
        act_running(loader);
    else
        act_late(loader);
}

// ---- What the supervisor calls -----------------------------------------------------------------------------

static struct loader *find(const struct process *process) {
    struct loader *loader;
    LIST_FOREACH(loader, &loaders, link)
        if (loader->process == process)
            break;
    return loader;
}

int __wrap_process_start(struct process *process, const struct process_start *start, struct error *error) {
    const struct loader_process *known = loader_process_of(process);
    const struct served_feed *feed = start->owner;
    process->state = PROCESS_RUNNING;
    process->owner = start->owner;
    process->changed = start->changed;
    process->closed = start->closed;
    process->channel_fd = start->channel;
    process->started_ns = sim.now_ns;
    if (sim_fault(plan.unspawned)) {
        close_fd(&process->channel_fd);
        process->closed(process);
        return error_set(error, -EAGAIN, "no %s can be started", start->what);
    }
    struct loader *loader = calloc(1, sizeof *loader);
    SIM_MUST(loader);
    loader->process = process;
    loader->serial = known->serial;
    loader->record = known->record;
    loader->mapping = map(feed, start->fds[HERITAGE_RING]);
    loader->ring = loader->mapping->ring;
    loader->event_fd = fcntl(start->fds[HERITAGE_EVENT], F_DUPFD_CLOEXEC, 0);
    loader->runs = true;
    LIST_INSERT_HEAD(&loaders, loader, link);
    actor_add(&loader->actor, "loader", act, sim_below(500 * NS_PER_US));
    if (sim_fault(plan.stillborn))
        process->state = PROCESS_KILLED; // by somebody else
    return 0;
}

void __wrap_process_stop(struct process *process) {
    if (process_is_reaped(process))
        return;
    process->asked = true;
    if (process->state != PROCESS_RUNNING)
        return;
    process->state = PROCESS_STOPPING;
    process->signalled_ns = sim.now_ns;
    actor_wake(&find(process)->actor, network_delay());
}

void __wrap_process_kill(struct process *process) {
    if (process->state != PROCESS_RUNNING && process->state != PROCESS_STOPPING)
        return;
    process->state = PROCESS_KILLED;
    process->signalled_ns = sim.now_ns;
    actor_wake(&find(process)->actor, network_delay());
}

void __wrap_process_watch(struct process *process, uint64_t now, uint64_t stop_timeout_ns) {
    if (process->state == PROCESS_STOPPING && now >= process->signalled_ns + stop_timeout_ns)
        __wrap_process_kill(process);
}

void __wrap_process_release(struct process *process) {
    struct loader *loader = find(process);
    SIM_MUST(process->state == PROCESS_GONE);
    SIM_MUST(!reads_in_flight(loader) || defect_is(DEFECT_EARLY_RECOVERY));
    loader->process = NULL;
    if (!reads_in_flight(loader))
        free_loader(loader);
    close_fd(&process->channel_fd);
    process->closed(process);
}

// Whoever sleeps on this futex is woken, at most as many as wanted. Only rings use any.
static long wake_sleepers(const uint32_t *word, int most) {
    struct loader *loader;
    long woken = 0;
    LIST_FOREACH(loader, &loaders, link) {
        if (woken == most)
            break;
        if (!loader->asleep || (const void *)&loader->mapping->control->work != (const void *)word)
            continue;
        loader->asleep = false;
        actor_wake(&loader->actor, network_delay());
        woken++;
    }
    return woken;
}

long __wrap_syscall(long number, ...) {
    va_list arguments;
    SIM_MUST(number == SYS_futex);
    va_start(arguments, number);
    const uint32_t *word = va_arg(arguments, const uint32_t *);
    int operation = va_arg(arguments, int), most = va_arg(arguments, int);
    va_end(arguments);
    SIM_MUST(operation == FUTEX_WAKE);
    return wake_sleepers(word, most);
}

// ---- What happens to them ----------------------------------------------------------------------------------

void loaders_beat(void) {
    struct loader *loader;
    LIST_FOREACH(loader, &loaders, link) {
        bool stuck = sim.now_ns < loader->stands_still_ns || (reads_in_flight(loader) && !loader->moved);
        if (loader->runs && loader->record && !stuck)
            atomic_store(&loader->record->heartbeat_ns, sim.now_ns);
        loader->moved = false;
    }
}

static struct loader *any_running(void) {
    struct loader *loader, *found = NULL;
    uint64_t seen = 0;
    LIST_FOREACH(loader, &loaders, link)
        if (loader->runs && loader->process && sim_below(++seen) == 0)
            found = loader;
    return found;
}

void loaders_kill_one(void) {
    struct loader *loader = any_running();
    if (loader)
        end_process(loader, 9);
}

void loaders_stop_one(uint64_t for_ns) {
    struct loader *loader = any_running();
    if (loader)
        loader->stands_still_ns = sim.now_ns + for_ns;
}

void loader_orphaned(const struct process *process) {
    struct loader *loader = find(process);
    if (!loader)
        return;
    loader->process = NULL;
    loader->record = NULL;
    loader->mapping->control = NULL;
    uint64_t survives_ns = sim_below(50 * NS_PER_MS);
    loader->orphan_until_ns = sim.now_ns + survives_ns;
    loader->stands_still_ns = 0;
    actor_wake(&loader->actor, survives_ns);
}
