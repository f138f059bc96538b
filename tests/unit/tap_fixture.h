// A feed's ring and two device pools that it feeds.
#ifndef FEEDD_TESTS_UNIT_TAP_FIXTURE_H
#define FEEDD_TESTS_UNIT_TAP_FIXTURE_H

#include "tests/unit/delivery_fixture.h"

// Ten batches per epoch.
static const struct partition alone = {.samples = 40, .batch_size = BATCH, .world_size = 1};

static struct fixture fixture, gpu, other;

static inline int close_after(void **state) {
    (void)state;
    close_fixture(&fixture);
    return 0;
}

static inline void open_with(uint32_t slots, uint32_t pool_slots, uint32_t lanes,
                             const struct partition *partition) {
    open_fixture(&fixture, slots, lanes, partition);
    open_pool(&gpu, &fixture, pool_slots);
    open_pool(&other, &fixture, pool_slots);
}

static inline struct start_position at(uint64_t epoch, uint64_t consumed) {
    return (struct start_position){.given = true, .epoch = epoch, .consumed = consumed};
}

static inline void give_back_all(struct fixture *place, struct consumer *consumer) {
    while (consumer->held_count)
        give_back(place, consumer, 0);
}

// Batches dispatched into the ring: for the feed's, the number that were read.
static inline uint64_t dispatched(const struct fixture *place) {
    return atomic_load(&place->ring.control->queue_head);
}

static inline void claim_all(struct fixture *place) {
    while (claim_one(place, 1))
        continue;
}

// Loaders read all that is dispatched; nothing is copied into a pool yet.
static inline void read_all(void) {
    pump(&fixture);
    claim_all(&fixture);
    while (fixture.claim_count)
        finish_claim(&fixture, 0);
    pump(&fixture);
}

static inline uint64_t drain(struct fixture *place, struct consumer *consumer) {
    uint64_t taken = 0;
    for (uint32_t count = 1; count; taken += count) {
        settle(&fixture);
        count = take(place, consumer, 64);
        give_back_all(place, consumer);
        check_everything(&fixture);
    }
    return taken;
}

#define TEST(name) cmocka_unit_test_teardown(name, close_after)

#endif
