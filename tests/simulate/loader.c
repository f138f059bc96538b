#include "tests/simulate/loader.h"

#include <errno.h>

#include "order/replace.h"
#include "shm/reader_kind.h"
#include "tests/simulate/daemon.h"
#include "tests/simulate/defects.h"
#include "tests/simulate/loader_feed.h"
#include "tests/simulate/network.h"
#include "tests/simulate/storage.h"

#define ROUND_NS     (100 * NS_PER_MS) // how long a loader with reads in flight waits before it looks for more
#define LATE_MOST_NS (3 * NS_PER_S)    // how long a read can outlive its process

struct loaders loaders;
struct hangs hangs[DATASETS];
uint64_t loaders_reported[BAD_FATES];
static bool released; // storage answers every read

void loaders_begin(void) {
    released = false;
    LIST_INIT(&loaders);
    for (uint32_t i = 0; i < DATASETS; i++)
        hangs[i] = (struct hangs){0};
    mappings_begin();
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
                loader->mapping ? loader->mapping->references : 0);
}

// ---- Reads -------------------------------------------------------------------------------------------------

static void soon(struct read *read, enum read_phase phase, uint64_t most_us) {
    read->phase = phase;
    read->due_ns = sim.now_ns + sim_below(1 + most_us * NS_PER_US);
}

static bool is_repair(const struct read *read) {
    return read->claimed.claim.chunk == RING_REPAIR_CHUNK;
}

static void tell_of(struct loader *loader, uint64_t sample, enum bad_fate fate) {
    const struct bad_report bad = {.sample = sample, .code = EIO, .fate = fate};
    if (!loader->record)
        return; // nobody reads it any more
    stats_note_bad(loader->record, &bad);
    loaders_reported[fate] += !loader->mapping->brought;
}

static void give_up(struct loader *loader, struct read *read, uint64_t sample) {
    tell_of(loader, sample, BAD_FATAL);
    read->failed = true;
    read->failed_sample = sample;
}

// Which of its samples cannot be read shows when all have arrived.
static void mark_unreadable(struct loader *loader, struct read *read) {
    const struct ring_claim *claim = &read->claimed.claim;
    enum dataset_kind stored = loader->mapping->stored;
    for (uint32_t i = 0; i < claim->count; i++) {
        uint64_t sample = read->claimed.samples[i];
        enum quality quality = storage_quality(stored, sample);
        if (quality == SAMPLE_GOOD || (quality == SAMPLE_FLAKY && sim_chance(500)))
            continue;
        if (stored == DATASET_STRICT || mapping_attempt(loader->mapping, claim, i) == REPLACE_ATTEMPTS) {
            give_up(loader, read, sample);
            return;
        }
        if (stored == DATASET_REPLACED) {
            tell_of(loader, sample, BAD_REPLACED);
            read->replacing.bad[read->replacing.count++] = i;
            continue;
        }
        // Where samples differ in size, the supervisor finds room for what replaces one, and all is read again.
        tell_of(loader, sample, stored == DATASET_PATCHED ? BAD_REPLACED : BAD_SKIPPED);
        ring_skip_sample(&loader->ring, claim, claim->first_sample + i);
        read->skipped++;
    }
}

// What is read now: the whole claim, or the sample that takes a place in it.
static struct piece piece_of(const struct read *read, bool second) {
    const struct replacing *replacing = &read->replacing;
    if (replacing->attempt)
        return (struct piece){replacing->bad[replacing->done], 1, second};
    return (struct piece){0, read->claimed.claim.count, second};
}

static void begin_read(struct loader *loader, struct read *read, uint64_t latency) {
    read->phase = READ_SENT;
    read->half_ns = latency == NEVER ? 0 : latency / 2;
    read->hangs = latency == NEVER && sim_fault(plan.hangs);
    hangs[loader->mapping->stored].stuck += latency == NEVER;
    read->due_ns = latency == NEVER ? NEVER : sim.now_ns + latency - latency / 2;
}

// True: another sample is being read for one that could not be.
static bool replace_next(struct loader *loader, struct read *read) {
    struct replacing *replacing = &read->replacing;
    struct claimed *claimed = &read->claimed;
    if (replacing->attempt) {
        uint64_t sample = claimed->samples[replacing->bad[replacing->done]];
        if (storage_quality(loader->mapping->stored, sample) == SAMPLE_GOOD) {
            replacing->done++;
            replacing->attempt = 0;
        } else if (replacing->attempt == REPLACE_ATTEMPTS) {
            give_up(loader, read, sample);
            return false;
        } else {
            tell_of(loader, sample, BAD_REPLACED);
        }
    }
    if (replacing->done == replacing->count)
        return false;
    if (!replacing->attempt && defect_is(DEFECT_LATER_ATTEMPT) && loader->serial > plan.loaders)
        replacing->attempt++;
    replacing->attempt++;
    mapping_replace(loader->mapping, claimed, replacing->bad[replacing->done], replacing->attempt);
    begin_read(loader, read, storage_latency());
    return true;
}

static void place(struct loader *loader, struct read *read) {
    const struct piece piece = piece_of(read, true);
    if (is_repair(read))
        ring_repair(&loader->ring, &read->claimed.claim);
    else
        storage_write(loader->mapping, &read->claimed, &piece);
    if (!loader->runs) {
        read->phase = READ_NONE;
        return;
    }
    if (!is_repair(read) && !read->replacing.attempt)
        mark_unreadable(loader, read);
    if (!replace_next(loader, read))
        soon(read, READ_PLACED, 5);
}

static void report(struct loader *loader, struct read *read) {
    const struct ring_claim *claim = &read->claimed.claim;
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
    if (loader->runs && loader->process && sim_fault(plan.deaths)) {
        loader_end(loader, 9);
        return;
    }
    if (read->phase == READ_SENT) {
        const struct piece piece = piece_of(read, false);
        if (!is_repair(read))
            storage_write(loader->mapping, &read->claimed, &piece);
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
    if (loader->record)
        ring_take_stripe(&loader->ring, atomic_load_explicit(&loader->record->stripe, memory_order_relaxed));
    if (!ring_claim(&loader->ring, loader->serial, &read->claimed.claim))
        return false;
    if (!is_repair(read))
        mapping_find(loader->mapping, &read->claimed);
    begin_read(loader, read, is_repair(read) ? sim_below(50 * NS_PER_US) : storage_latency());
    return true;
}

// ---- The process -------------------------------------------------------------------------------------------

uint32_t loader_reads(const struct loader *loader) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < READS_MOST; i++)
        count += loader->reads[i].phase != READ_NONE;
    return count;
}

void loader_free(struct loader *loader) {
    actor_remove(&loader->actor);
    LIST_REMOVE(loader, link);
    close_fd(&loader->event_fd);
    loader_stop_waiting(loader);
    if (loader->mapping)
        mapping_put(loader->mapping);
    free(loader);
}

static bool is_hung(const struct loader *loader) {
    for (uint32_t i = 0; i < READS_MOST && !released; i++)
        if (loader->reads[i].phase != READ_NONE && loader->reads[i].hangs)
            return true;
    return false;
}

static void tell_end(struct loader *loader, enum process_state state) {
    loader->process->state = state;
    loader->process->changed(loader->process);
    daemon_wake(network_delay());
}

static void be_reaped(struct loader *loader, int signal) {
    loader->unreaped = false;
    if (!loader->process)
        return;
    loader->process->exit_signal = signal;
    loader->process->ended_ns = sim.now_ns;
    tell_end(loader, defect_is(DEFECT_EARLY_RECOVERY) ? PROCESS_GONE : PROCESS_EXITED);
}

// The kernel may still be finishing its reads. One that hangs may keep the process, or outlive it.
void loader_end(struct loader *loader, int signal) {
    uint64_t hung_ns = sim_chance(500) ? NEVER : sim.now_ns + sim_between(1, 60) * NS_PER_S;
    sim_trace("loader %u: ends with signal %d%s", loader->serial, signal,
              is_hung(loader) ? ", but hangs" : "");
    loader->runs = false;
    loader->asleep = false;
    loader->record = NULL;
    for (uint32_t i = 0; i < READS_MOST; i++) {
        struct read *read = &loader->reads[i];
        bool late = (read->phase == READ_SENT || read->phase == READ_HALF) && !is_repair(read);
        if (!late)
            read->phase = READ_NONE;
        else if (read->hangs && !released)
            read->due_ns = hung_ns;
        else
            read->due_ns = min_u64(read->due_ns, sim.now_ns + sim_below(LATE_MOST_NS));
    }
    if (loader->mapping)
        hangs[loader->mapping->stored].left += loader_reads(loader) > 0;
    loader->unreaped = is_hung(loader) && sim_chance(500);
    if (!loader->unreaped)
        be_reaped(loader, signal);
    actor_wake(&loader->actor, network_delay());
}

bool loaders_hang(void) {
    const struct loader *loader;
    LIST_FOREACH(loader, &loaders, link)
        if (is_hung(loader) && !loader->runs)
            return true;
    return false;
}

void loaders_release(void) {
    struct loader *loader;
    released = true;
    LIST_FOREACH(loader, &loaders, link)
        for (uint32_t i = 0; i < READS_MOST; i++)
            if (loader->reads[i].hangs && !loader->runs) {
                loader->reads[i].due_ns =
                    min_u64(loader->reads[i].due_ns, sim.now_ns + sim_below(LATE_MOST_NS));
                actor_wake(&loader->actor, loader->reads[i].due_ns - sim.now_ns);
            }
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
    if (loader_reads(loader)) {
        schedule_reads(loader);
        return;
    }
    if (loader->unreaped)
        be_reaped(loader, 9);
    if (!loader->process) {
        loader_free(loader);
        return;
    }
    if (loader->process->state == PROCESS_GONE)
        return; // to be released
    tell_end(loader, PROCESS_GONE);
}

static void act_running(struct loader *loader) {
    bool more = true, ending = loader->process && loader->process->state == PROCESS_STOPPING;
    if (loader->record && atomic_load_explicit(&loader->record->retires, memory_order_relaxed))
        ending = true;
    if (loader->record)
        atomic_store_explicit(&loader->record->reader, READER_PREAD, memory_order_relaxed);
    for (uint32_t i = 0; i < READS_MOST; i++)
        advance(loader, &loader->reads[i]);
    if (!loader->runs)
        return;
    for (uint32_t i = 0; i < READS_MOST && more && !ending; i++)
        if (loader->reads[i].phase == READ_NONE)
            more = claim(loader, &loader->reads[i]);
    if (loader_reads(loader))
        actor_wake(&loader->actor, ROUND_NS);
    else if (ending)
        loader_end(loader, 0);
    else if (ring_announce_sleep(&loader->ring))
        actor_wake(&loader->actor, sim_below(2 * NS_PER_US));
    else
        loader->asleep = true; // nothing but a wake-up helps: in reality it would look again after a while
    schedule_reads(loader);
    if (!loader->process && loader->runs)
        actor_wake(&loader->actor, loader->orphan_until_ns - sim.now_ns);
}

void loader_act(struct actor *actor) {
    struct loader *loader = CONTAINER_OF(actor, struct loader, actor);
    bool killed = loader->process && loader->process->state == PROCESS_KILLED;
    bool orphan_ends = !loader->process && sim.now_ns >= loader->orphan_until_ns;
    if (loader->runs && (killed || orphan_ends)) {
        loader_end(loader, 9);
        return;
    }
    if (loader->runs && sim.now_ns < loader->stands_still_ns) {
        actor_wake(actor, loader->stands_still_ns - sim.now_ns);
        return;
    }
    loader->asleep = false;
    if (loader->runs && loader->assignment_fd >= 0)
        loader_act_waiting(loader);
    else if (loader->runs)
        act_running(loader);
    else
        act_late(loader);
}
