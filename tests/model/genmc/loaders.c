// For GenMC: a supervisor and two loaders. Nobody reads a description or bytes that are not in place, no chunk is lost,
// and a supervisor that falls asleep is woken. With DIES_AT, one of the loaders dies before its DIES_AT-th atomic
// operation. BATCHES=2: the slot is used again, so that old queue entries lead to a new batch. EARLY: the first batch
// is there before the loaders are. REAPED_EARLY: the supervisor does not wait for the end of the loader that dies.
// Linked with: shm/ring_supervisor.c shm/ring_places.c
#include "tests/model/genmc/mortal.h"
#include "tests/model/genmc/ring.h"

#include "shm/ring_loader.c"

#ifndef BATCHES
#define BATCHES 1
#endif
#ifndef CHUNKS
#define CHUNKS 1
#endif
#ifndef CLAIMS
#define CLAIMS CHUNKS // of each loader
#endif
#ifndef DIES_AT
#define DIES_AT 0
#endif

RING_MEMORY(memory, 1, CHUNKS, 2, 0);
static uint64_t bytes[CHUNKS]; // not atomic: GenMC finds a race
static _Atomic uint32_t woken;

long syscall(long number, ...) {
    return 1; // one of those that are asleep is woken
}

static bool fill_chunk(struct ring *ring, uint32_t owner) {
    struct ring_claim claim;
    if (!ring_claim(ring, owner, &claim))
        return false;
    CHECK(claim.count == 1 && claim.chunk_count == CHUNKS);
    bytes[claim.chunk] = claim.first_position + 1;
    if (ring_chunk_done(ring, &claim, 0)) {
        step();
        atomic_fetch_add(&woken, 1);
    }
    return true;
}

static void *loader(void *number) {
    struct ring ring = RING_OF(memory);
    if ((uintptr_t)number == 1)
        steps_to_live = DIES_AT;
    for (int i = 0; i < CLAIMS; i++)
        if (!fill_chunk(&ring, (uint32_t)(uintptr_t)number))
            break;
    return NULL;
}

static bool collect(struct ring *ring, uint64_t sequence) {
    if (ring_slot_poll(ring, 0) != RING_SLOT_READY)
        return false;
    for (uint64_t i = 0; i < CHUNKS; i++)
        CHECK(bytes[i] == sequence * CHUNKS + i + 1);
    ring_slot_free(ring, 0);
    return true;
}

static void dispatch_batch(struct ring *ring, uint64_t sequence) {
    struct ring_batch name = {.run = 1, .rank = 0, .sequence = sequence};
    struct batch_place place = {.first_position = sequence * CHUNKS, .count = CHUNKS};
    CHECK(ring_dispatch(ring, 0, &name, &place));
}

int main(void) {
    uint32_t done, dispatched = 1, woken_before = 0;
    struct ring ring = RING_OF_SUPERVISOR(memory);
#ifdef EARLY
    dispatch_batch(&ring, 0);
#endif
    long first = spawn(loader, (void *)1), second = spawn(loader, (void *)2);
#ifndef EARLY
    dispatch_batch(&ring, 0);
#endif
    ring_supervisor_arm(&ring);
    done = collect(&ring, 0);
    if (done == 1 && BATCHES == 2) {
        dispatch_batch(&ring, 1);
        dispatched++;
        ring_supervisor_arm(&ring);
        done += collect(&ring, 1);
    }
#ifndef REAPED_EARLY
    join(first);
#endif
    if (DIES_AT) {
        (void)ring_recover(&ring, 1);
        woken_before = atomic_load(&woken);
        done += done < dispatched && collect(&ring, done);
    }
    join(second);
#ifdef REAPED_EARLY
    join(first);
#endif
    // Whoever looked before the batch was complete has been told of its end.
    if (done < dispatched && collect(&ring, done)) {
        CHECK(atomic_load(&woken) > woken_before);
        done++;
    }
    // Whatever the two have left, others find.
    while (fill_chunk(&ring, 3))
        ;
    CHECK(done == dispatched || collect(&ring, done));
    return 0;
}
