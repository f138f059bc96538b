// Every schedule of loaders and the supervisor on a small ring, up to so many preemptions and killed loaders: each ends
// with all batches complete, each chunk word changes only as shm/README.md allows, nobody sleeps over work, and the
// memory orders that the code asks for make visible what is then read. The code is the ring's own; RING_SCHEDULES=N
// explores N preemptions more.
#ifndef FEEDD_TESTS_UNIT_RING_PLOTS_H
#define FEEDD_TESTS_UNIT_RING_PLOTS_H

#include "tests/unit/ring_orders.h"

#include "order/partition.h"
#include "shm/ring_loader.c" // NOLINT(bugprone-suspicious-include)
#include "shm/ring_loader.h"
#include "shm/ring_supervisor.c" // NOLINT(bugprone-suspicious-include)
#include "shm/ring_supervisor.h"

struct plot {
    struct ring_shape shape;
    uint64_t batches;
    uint32_t count; // samples of a batch
    bool skips;     // the first sample of a batch cannot be read
    bool fails;     // no chunk can be filled
    bool hangs;     // the kernel keeps the reads of a loader that was killed
    bool striped;   // each loader has a stripe of its own
    uint32_t loaders, preemptions, crashes;
};

static const struct plot *plot;
static uint8_t *fresh; // the bytes of the stage at the start
static uint64_t finished, dispatched;
static uint32_t hung;                // a loader that was killed, and whose reads the kernel keeps; 0: none
static bool left[SLOTS_MOST];        // behind by that loader: the batch is in another slot
static uint64_t in_slot[SLOTS_MOST]; // sequence + 1; 0: free
static uint64_t filled[SLOTS_MOST][CHUNKS_MOST]; // sequence + 1 of what was filled in last

// ---- The table of shm/README.md ---------------------------------------------------------------------------

static bool change_allowed(bool repair, uint64_t from, uint64_t to) {
    bool supervisor = world.current == 0;
    bool withdrawn = plot->hangs && supervisor;
    bool buried = supervisor && world.actors[chunk_owner(from)].state == ACTOR_DEAD;
    switch (chunk_state(from) << 8 | chunk_state(to)) {
    case CHUNK_IDLE << 8 | CHUNK_IDLE:
    case CHUNK_IDLE << 8 | CHUNK_FREE:
    case CHUNK_DONE << 8 | CHUNK_IDLE:
    case CHUNK_FAILED << 8 | CHUNK_IDLE:
        return supervisor;
    case CHUNK_IDLE << 8 | CHUNK_RECOVERED:
    case CHUNK_FREE << 8 | CHUNK_IDLE:
    case CHUNK_RECOVERED << 8 | CHUNK_IDLE:
        return withdrawn;
    case CHUNK_FREE << 8 | CHUNK_CLAIMED:
    case CHUNK_RECOVERED << 8 | CHUNK_CLAIMED:
        return !supervisor && chunk_owner(to) == (uint32_t)world.current;
    case CHUNK_CLAIMED << 8 | CHUNK_DONE:
    case CHUNK_CLAIMED << 8 | CHUNK_FAILED:
        return chunk_owner(from) == (uint32_t)world.current;
    case CHUNK_CLAIMED << 8 | CHUNK_FREE:
        return buried && repair;
    case CHUNK_CLAIMED << 8 | CHUNK_RECOVERED:
        return buried && !repair;
    default:
        return false;
    }
}

static void check_change(void *word, uint64_t from, uint64_t to, memory_order order) {
    const struct job_events *job = job_of(word);
    if (job && !change_allowed(is_repair(job), from, to))
        complain("a chunk word was changed by the wrong process, or to a forbidden value");
    check_change_order(word, from, to, order);
}

// ---- Actors -----------------------------------------------------------------------------------------------

static bool end_job(struct ring *ring, const struct ring_claim *claim, uint32_t skipped) {
    int actor = world.current;
    ending[actor] = true;
    bool wake = ring_chunk_done(ring, claim, skipped);
    ending[actor] = false;
    return wake;
}

static bool work_on(struct ring *ring, const struct ring_claim *claim) {
    if (!event_known(world.current, claimed_job(claim)->offered))
        complain("a job is claimed, and its description may not be there yet");
    if (claim->chunk == RING_REPAIR_CHUNK) {
        ring_repair(ring, claim);
        return end_job(ring, claim, 0);
    }
    if (claim->first_position != ring_slot(ring, claim->slot)->first_position + claim->first_sample)
        complain("a claim speaks of another batch than its slot");
    if (plot->fails)
        return ring_chunk_failed(ring, claim, -EIO, 1, 2, 3);
    bool skip = plot->skips && claim->chunk == 0;
    fixture_fill(ring, claim);
    if (skip)
        ring_skip_sample(ring, claim, 0);
    filled[claim->slot][claim->chunk] = ring_slot(ring, claim->slot)->sequence + 1;
    return end_job(ring, claim, skip);
}

static void play_loader(uint32_t owner) {
    struct ring ring = stage;
    ring.stripes = plot->striped ? plot->loaders : 0;
    ring.stripe = plot->striped ? (owner - 1) % plot->loaders : 0;
    for (;;) {
        struct ring_claim claim;
        bool claimed = ring_claim(&ring, owner, &claim);
        check_urgent_seen(&ring);
        if (!claimed) {
            ring_wait_for_work(&ring, 1000);
            continue;
        }
        if (work_on(&ring, &claim)) {
            step();
            world.event = true;
        }
    }
}

static void dispatch_more(void) {
    uint32_t chunks = 0;
    for (uint32_t slot = 0; slot < plot->shape.slots && dispatched < plot->batches; slot++) {
        struct batch_place place = fixture_place(dispatched, plot->count, plot->shape.batch);
        struct ring_batch name = {.run = 1, .sequence = dispatched};
        if (in_slot[slot] || left[slot] || !ring_dispatch(&stage, slot, &name, &place))
            continue;
        in_slot[slot] = ++dispatched;
        chunks += ring_slot(&stage, slot)->chunk_count;
    }
    ring_wake_loaders(&stage, chunks);
}

static void check_batch(uint32_t slot) {
    const struct ring_slot *batch = ring_slot(&stage, slot);
    if (batch->sequence + 1 != in_slot[slot] || batch->skipped != plot->skips)
        complain("a slot holds another batch than was put there");
    for (uint32_t chunk = 0; chunk < batch->chunk_count; chunk++) {
        if (filled[slot][chunk] != in_slot[slot])
            complain("a chunk is done and was not filled");
        if (!event_known(0, events[slot][chunk].ended))
            complain("a chunk is done, and its bytes may not be there yet");
    }
    if (batch->skipped && !event_known(0, events[slot][CHUNKS_MOST].ended))
        complain("a batch is repaired, and its bytes may not be there yet");
    // The first sample cannot be read: the last one is in its place.
    uint32_t first = plot->skips ? batch->count - 1 : 0;
    if (!fixture_sample_is(&stage, slot, 0, fixture_call(batch->epoch, batch->first_position + first)))
        complain("a batch holds wrong bytes");
}

static bool look(void) {
    struct ring_error failure;
    for (uint32_t slot = 0; slot < plot->shape.slots; slot++) {
        if (!in_slot[slot])
            continue;
        polling = true;
        enum ring_slot_state state = ring_slot_poll(&stage, slot);
        polling = false;
        if (state == RING_SLOT_FILLING)
            continue;
        if ((state == RING_SLOT_FAILED) != plot->fails)
            complain("a batch failed that should not, or the other way round");
        bool told = state == RING_SLOT_FAILED && ring_take_failure(&stage, &failure);
        if (state == RING_SLOT_FAILED && !told && !world.crashes)
            complain("a batch failed and nobody says why");
        if (told && !event_known(0, failure_written))
            complain("a batch failed, and the reason may not be there yet");
        if (state == RING_SLOT_FAILED)
            return true;
        check_batch(slot);
        ring_slot_free(&stage, slot);
        in_slot[slot] = 0;
        finished++;
    }
    return finished == plot->batches;
}

static bool find_free(uint32_t *slot) {
    for (*slot = 0; *slot < plot->shape.slots; ++*slot)
        if (!in_slot[*slot] && !left[*slot])
            return true;
    return false;
}

// As abandoned_move: what the loader was reading is read into other slots, as far as there are any.
static void leave_behind(uint32_t owner) {
    uint32_t to;
    ring_recover_signals(&stage, owner);
    for (uint32_t slot = 0; slot < plot->shape.slots; slot++) {
        if (!in_slot[slot] || !ring_slot_claimed_by(&stage, slot, owner) || !find_free(&to))
            continue;
        struct batch_place place = fixture_place(in_slot[slot] - 1, plot->count, plot->shape.batch);
        struct ring_batch name = {.run = 1, .sequence = in_slot[slot] - 1};
        ring_dispatch_again(&stage, to, &name, &place);
        in_slot[to] = in_slot[slot];
        in_slot[slot] = 0;
        left[slot] = true;
        ring_slot_withdraw(&stage, slot);
    }
    hung = owner;
}

static void collect_left(void) {
    for (uint32_t slot = 0; slot < plot->shape.slots; slot++)
        if (left[slot] && !ring_slot_busy(&stage, slot)) {
            ring_slot_free(&stage, slot);
            left[slot] = false;
        }
}

static void end_hung(void) {
    uint32_t owner = hung;
    hung = 0;
    ring_recover(&stage, owner);
    for (uint32_t slot = 0; slot < plot->shape.slots; slot++)
        if (left[slot])
            ring_slot_withdraw(&stage, slot);
    collect_left();
}

static void bury(void) {
    uint32_t owner = (uint32_t)world.buried;
    world.buried = 0;
    clock_join(&clocks.actors[0], &clocks.actors[owner]); // the kernel tells of a death after everything else
    if (plot->hangs) {
        leave_behind(owner);
        return;
    }
    ring_recover(&stage, owner);
    if (ring_recover(&stage, owner) != 0)
        complain("a chunk was given back twice");
}

// There was no other slot for some of it, or there is none left.
static bool must_end_hung(void) {
    uint32_t slot;
    if (!hung)
        return false;
    for (slot = 0; slot < plot->shape.slots; slot++)
        if (in_slot[slot] && ring_slot_claimed_by(&stage, slot, hung))
            return true;
    return dispatched < plot->batches && !find_free(&slot);
}

static void play_supervisor(void) {
    dispatch_more();
    for (;;) {
        if (!world.event && !world.buried && !must_end_hung())
            block(ACTOR_HEARS);
        if (world.event) {
            world.event = false;
            ring_supervisor_arm(&stage);
        }
        // The reads end at any time after that: here, the next time the supervisor has something to do.
        if (hung)
            end_hung();
        if (world.buried)
            bury();
        collect_left();
        if (look())
            return;
        dispatch_more();
    }
}

static void play_actor(int actor) {
    if (actor == 0)
        play_supervisor();
    else if ((uint32_t)actor <= plot->loaders)
        play_loader((uint32_t)actor);
}

// ---- Plots ------------------------------------------------------------------------------------------------

static void print_path(void) {
    print_message("choices:");
    for (uint32_t i = 0; i < world.depth; i++)
        if (world.path[i].taken)
            print_message(" %u:%u/%u", i, world.path[i].taken, world.path[i].options);
    print_message("\n");
}

static void set_stage(void) {
    memcpy(stage.control, fresh, stage.mapped_bytes);
    memset(stage.dispatched, 0, stage.header->slot_count * sizeof *stage.dispatched);
    stage.queued = 0;
    stage.control->supervisor_asleep = 1;
    memset(in_slot, 0, sizeof in_slot);
    memset(filled, 0, sizeof filled);
    orders_reset();
    memset(left, 0, sizeof left);
    finished = dispatched = hung = 0;
}

static void explore(const struct plot *wanted) {
#ifdef __SANITIZE_THREAD__
    print_message("skip: one thread plays all, and the thread sanitizer does not follow its coroutines\n");
    skip();
#endif
    const char *more = getenv("RING_SCHEDULES");
    plot = wanted;
    memset(&world, 0, sizeof world);
    world.preemptions_most = plot->preemptions + (more ? (uint32_t)strtoul(more, NULL, 10) : 0);
    world.crashes_most = plot->crashes;
#ifdef __SANITIZE_ADDRESS__
    world.preemptions_most = 1; // it looks at memory, which does not take many schedules, and takes its time
#endif
    fixture_ring(&stage, &plot->shape);
    fresh = malloc(stage.mapped_bytes);
    assert_non_null(fresh);
    memcpy(fresh, stage.control, stage.mapped_bytes);
    for (int i = 0; i < ACTORS; i++)
        assert_non_null(world.actors[i].stack = malloc(STACK_BYTES));
    do {
        set_stage();
        run_schedule();
    } while (!world.complaint && next_path());
    print_message("%lu schedules of up to %u preemptions and %u deaths\n", world.schedules,
                  world.preemptions_most, world.crashes_most);
    if (world.complaint) {
        print_path();
        fail_msg("%s", world.complaint);
    }
    for (int i = 0; i < ACTORS; i++)
        free(world.actors[i].stack);
    free(fresh);
    ring_unmap(&stage);
}

#endif
