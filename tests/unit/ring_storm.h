// What the storms on one ring share, whether threads or processes play the loaders: a loader that dies
// where it is told to, a supervisor that hears of everything by descriptors, and the rule by which every
// byte of every batch is known beforehand.
#ifndef FEEDD_TESTS_UNIT_RING_STORM_H
#define FEEDD_TESTS_UNIT_RING_STORM_H

#include <poll.h>
#include <sys/eventfd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "shm/ring_loader.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/ring_fixture.h"

#define STORM_SILENCE_MS 20000 // nothing heard for so long while a batch is being filled: a wake-up was lost
#define STORM_SLOTS      16u

struct storm {
    struct ring ring;
    struct ring_shape shape;
    uint64_t batches;
    bool skips; // some samples cannot be read
    int event_fd;

    // The supervisor's.
    uint64_t next, finished;
    uint64_t of_slot[STORM_SLOTS]; // sequence + 1 of the batch being filled; 0: free or with the reader
    uint32_t filling;
    uint64_t recovered;
};

// ---- What is in a batch -----------------------------------------------------------------------------------

// A few batches are without samples, many are short; all of it a function of the number.
static inline uint32_t storm_count(const struct storm *storm, uint64_t sequence) {
    uint64_t mixed = (sequence + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return mixed % 4 ? storm->shape.batch : (uint32_t)(mixed / 4 % (storm->shape.batch + 1));
}

static inline bool storm_unreadable(const struct storm *storm, uint64_t name) {
    return storm->skips && (name * UINT64_C(0xff51afd7ed558ccd) >> 33) % 23 == 0;
}

static inline bool storm_batch_is_right(const struct storm *storm, uint32_t slot) {
    const struct ring_slot *batch = ring_slot(&storm->ring, slot);
    uint32_t good = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        good += !storm_unreadable(storm, fixture_call(batch->epoch, batch->first_position + i));
    bool same = batch->skipped == batch->count - good && batch->count == storm_count(storm, batch->sequence);
    uint32_t source = good;
    for (uint32_t i = 0; same && i < good; i++) {
        uint64_t name = fixture_call(batch->epoch, batch->first_position + i);
        while (storm_unreadable(storm, name))
            name = fixture_call(batch->epoch, batch->first_position + source++);
        same = fixture_sample_is(&storm->ring, slot, i, name);
    }
    return same;
}

// ---- Loader -----------------------------------------------------------------------------------------------

enum storm_death {
    DIE_NOT,
    DIE_AWAKE,   // woken, nothing claimed
    DIE_CLAIMED, // nothing filled
    DIE_FILLING, // half of it filled or repaired, and marked
    DIE_FILLED,  // not reported
    DIE_UNHEARD, // reported, the eventfd not written
    STORM_DEATHS
};

static inline uint32_t storm_fill(const struct storm *storm, struct ring *ring,
                                  const struct ring_claim *claim, uint32_t count) {
    uint32_t skipped = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t sample = claim->first_sample + i;
        uint64_t name = fixture_call(claim->epoch, claim->first_position + i);
        if (storm_unreadable(storm, name)) {
            fixture_fill_sample(ring, claim->slot, sample, ~name);
            ring_skip_sample(ring, claim, sample);
            skipped++;
        } else {
            fixture_fill_sample(ring, claim->slot, sample, name);
        }
    }
    return skipped;
}

// One turn of a loader's life. False when it died in it.
static inline bool storm_turn(const struct storm *storm, struct ring *ring, uint32_t owner,
                              enum storm_death death) {
    struct ring_claim claim;
    uint64_t one = 1;
    uint32_t skipped = 0;
    if (!ring_claim(ring, owner, &claim)) {
        ring_wait_for_work(ring, 2 * STORM_SILENCE_MS);
        return death != DIE_AWAKE;
    }
    bool repair = claim.chunk == RING_REPAIR_CHUNK;
    if (death == DIE_CLAIMED)
        return false;
    if (death == DIE_FILLING && !repair)
        storm_fill(storm, ring, &claim, claim.count / 2);
    if (death == DIE_FILLING)
        return false;
    if (repair)
        ring_repair(ring, &claim);
    else
        skipped = storm_fill(storm, ring, &claim, claim.count);
    if (death == DIE_FILLED)
        return false;
    bool wake = ring_chunk_done(ring, &claim, skipped);
    if (death == DIE_UNHEARD)
        return false;
    return !wake || write(storm->event_fd, &one, sizeof one) == (ssize_t)sizeof one;
}

// ---- Supervisor -------------------------------------------------------------------------------------------

static inline void storm_dispatch(struct storm *storm) {
    uint32_t chunks = 0;
    for (uint32_t slot = 0; slot < storm->shape.slots && storm->next < storm->batches; slot++) {
        if (storm->of_slot[slot])
            continue;
        struct batch_place place =
            fixture_place(storm->next, storm_count(storm, storm->next), storm->shape.batch);
        struct ring_batch name = {.run = 1, .sequence = storm->next};
        if (!ring_dispatch(&storm->ring, slot, &name, &place))
            break;
        storm->of_slot[slot] = ++storm->next;
        storm->filling++;
        chunks += ring_slot(&storm->ring, slot)->chunk_count;
    }
    ring_wake_loaders(&storm->ring, chunks);
}

// Hands every complete batch to `take`, which verifies it; false when it is wrong.
static inline bool storm_look(struct storm *storm, bool (*take)(struct storm *, uint32_t slot)) {
    for (uint32_t slot = 0; slot < storm->shape.slots; slot++) {
        if (!storm->of_slot[slot] || storm->of_slot[slot] == UINT64_MAX)
            continue;
        enum ring_slot_state state = ring_slot_poll(&storm->ring, slot);
        if (state == RING_SLOT_FILLING)
            continue;
        const struct ring_slot *batch = ring_slot(&storm->ring, slot);
        if (state == RING_SLOT_FAILED || ring_slot_busy(&storm->ring, slot) ||
            batch->sequence != storm->of_slot[slot] - 1)
            return false;
        storm->of_slot[slot] = UINT64_MAX; // with the reader
        storm->filling--;
        storm->finished++;
        if (!take(storm, slot))
            return false;
    }
    return true;
}

static inline void storm_release(struct storm *storm, uint32_t slot) {
    ring_slot_free(&storm->ring, slot);
    storm->of_slot[slot] = 0;
}

static inline void storm_bury(struct storm *storm, uint32_t owner) {
    storm->recovered += (uint64_t)ring_recover(&storm->ring, owner);
}

static inline void storm_hear_event(struct storm *storm) {
    uint64_t count;
    if (read(storm->event_fd, &count, sizeof count) == (ssize_t)sizeof count)
        ring_supervisor_arm(&storm->ring);
}

static inline void storm_open(struct storm *storm, const struct ring_shape *shape, uint64_t batches,
                              bool skips) {
    *storm = (struct storm){.shape = *shape, .batches = batches, .skips = skips};
    assert_true(shape->slots <= STORM_SLOTS);
    fixture_ring(&storm->ring, shape);
    storm->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(storm->event_fd >= 0);
    ring_supervisor_arm(&storm->ring);
}

static inline void storm_close(struct storm *storm) {
    ring_unmap(&storm->ring);
    close_fd(&storm->event_fd);
}

#endif
