// For GenMC: a queue that loaders have filled, each of which died between claiming a chunk and moving the cursor. The
// supervisor still puts a batch into it, or is told when it can, while loaders move the cursor. No batch is lost. With
// DIES_AT, one of the loaders dies before its DIES_AT-th atomic operation. REFUSED: a FREE chunk is in front, so that
// the supervisor cannot continue before a loader has taken it. ALONE: there is one loader.
// Linked with: shm/ring_supervisor.c shm/ring_places.c
#include "tests/model/genmc/mortal.h"
#include "tests/model/genmc/ring.h"

#include "shm/ring_loader.c"

#ifndef DIES_AT
#define DIES_AT 0
#endif

enum {
    SLOTS = 2,
    ENTRIES = 2
};

RING_MEMORY(memory, SLOTS, 1, ENTRIES, 0);
static uint64_t bytes[SLOTS]; // not atomic: GenMC finds a race
static _Atomic uint32_t woken;
static uint32_t known; // of the urgent jobs, before the threads begin

long syscall(long number, ...) {
    return 1;
}

static bool fill_slot(struct ring *ring, uint32_t owner) {
    struct ring_claim claim;
    if (!ring_claim(ring, owner, &claim))
        return false;
    CHECK(claim.count == 1 && claim.chunk == 0);
    bytes[claim.slot] = claim.first_position + 1;
    if (ring_chunk_done(ring, &claim, 0)) {
        step();
        atomic_fetch_add(&woken, 1);
    }
    return true;
}

static void *loader(void *number) {
    struct ring ring = RING_OF(memory);
    ring.urgent_seen = known;
    if ((uintptr_t)number == 1)
        steps_to_live = DIES_AT;
    (void)fill_slot(&ring, (uint32_t)(uintptr_t)number);
    return NULL;
}

static bool collect(struct ring *ring, uint32_t slot, uint64_t sequence) {
    if (ring_slot_poll(ring, slot) != RING_SLOT_READY)
        return false;
    CHECK(bytes[slot] == sequence + 1);
    ring_slot_free(ring, slot);
    return true;
}

static bool dispatch_batch(struct ring *ring, uint32_t slot, uint64_t sequence) {
    struct ring_batch name = {.run = 1, .rank = 0, .sequence = sequence};
    struct batch_place place = {.first_position = sequence, .count = 1};
    return ring_dispatch(ring, slot, &name, &place);
}

// A batch whose first loader dies before it moves the cursor.
static void spend_entry(struct ring *ring, struct ring *other, uint64_t sequence) {
    CHECK(dispatch_batch(ring, 0, sequence));
    CHECK(take(&ring_chunks(ring, 0)[0], 7));
    CHECK(ring_recover(ring, 7) == 1);
    CHECK(fill_slot(other, 8));
    CHECK(collect(ring, 0, sequence));
}

int main(void) {
    struct ring ring = RING_OF_SUPERVISOR(memory);
    struct ring other = RING_OF(memory);
    const uint32_t slot = 1;
    spend_entry(&ring, &other, 0);
#ifdef REFUSED
    CHECK(dispatch_batch(&ring, 0, 1));
#else
    spend_entry(&ring, &other, 1);
#endif
    CHECK(atomic_load(&memory.control.claim_cursor) == 0 && ring.queued == ENTRIES);
    known = atomic_load(&memory.control.urgent_wanted);
    ring_supervisor_arm(&ring);

    long first = spawn(loader, (void *)1);
#ifndef ALONE
    long second = spawn(loader, (void *)2);
#endif
    bool queued = dispatch_batch(&ring, slot, 2);
#ifndef REFUSED
    CHECK(queued);
#endif
    join(first);
    if (DIES_AT)
        (void)ring_recover(&ring, 1);
#ifndef ALONE
    join(second);
#endif
#ifdef REFUSED // the batch in front has been finished by now, and then there is room
    while (fill_slot(&other, 9))
        ;
    CHECK(collect(&ring, 0, 1));
    CHECK(DIES_AT || atomic_load(&woken) > 0);
    CHECK(queued || dispatch_batch(&ring, slot, 2));
#endif
    // Whatever the two have left, others find.
    while (fill_slot(&other, 9))
        ;
    CHECK(collect(&ring, slot, 2));
    return 0;
}
