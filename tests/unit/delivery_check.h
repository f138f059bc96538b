// What a test of delivery works on, and a check of every slot and count to make after each step.
#ifndef FEEDD_TESTS_UNIT_DELIVERY_CHECK_H
#define FEEDD_TESTS_UNIT_DELIVERY_CHECK_H

#include "base/sizes.h"
#include "daemon/supervisor/delivery/delivery.h"
#include "daemon/supervisor/delivery/fill_loaders.h"
#include "daemon/supervisor/delivery/fill_tap.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/pool_fixture.h"

#define CONSUMERS_MOST 8
#define CLAIMS_MOST    64
#define BATCH          4u
#define POOLS_MOST     2
#define SLOTS_MOST     64

struct fixture {
    struct fixture *source; // of a pool
    struct fixture *pools[POOLS_MOST];
    // Of a pool's consumers: fills that they have released on their streams, and fills that the streams have reached.
    uint64_t released[CONSUMERS_MOST][SLOTS_MOST], words[CONSUMERS_MOST][SLOTS_MOST];
    struct ring ring;
    struct tap tap; // of a pool
    struct loaders_fill fill;
    struct delivery delivery;
    struct consumer *consumers[CONSUMERS_MOST]; // attached ones, NULL elsewhere
    struct ring_claim claims[CLAIMS_MOST];
    uint32_t owners[CLAIMS_MOST];
    uint32_t claim_count;
};

static inline bool is_held(const struct consumer *consumer, uint32_t slot) {
    return consumer && consumer->held[slot / 64] >> (slot % 64) & 1;
}

#define ALL_MOST (CONSUMERS_MOST + POOLS_MOST * 8)

// Consumers, and the lanes of pools that take batches like consumers; returns how many.
static inline uint32_t list_consumers(const struct fixture *fixture, const struct consumer *list[ALL_MOST]) {
    const struct lane *lane;
    uint32_t count = 0;
    for (int i = 0; i < CONSUMERS_MOST; i++)
        if (fixture->consumers[i])
            list[count++] = fixture->consumers[i];
    for (int i = 0; i < POOLS_MOST; i++)
        if (fixture->pools[i] && fixture->pools[i]->delivery.ring)
            LIST_FOREACH(lane, &fixture->pools[i]->delivery.lanes, link)
                if (tap_lane_of(lane))
                    list[count++] = &tap_lane_of(lane)->consumer;
    return count;
}

// Copies to pools that are being made of a slot.
static inline uint32_t count_copies(const struct fixture *fixture, uint32_t slot) {
    uint32_t copies = 0;
    for (int i = 0; i < POOLS_MOST; i++) {
        const struct fixture *pool = fixture->pools[i];
        for (uint32_t k = 0; pool && pool->delivery.ring && k < pool->ring.header->slot_count; k++)
            copies += pool->delivery.slots[k].phase == SLOT_FILLING && pool->tap.slots[k].source == slot;
    }
    return copies;
}

static inline void check_tap(const struct lane *lane) {
    assert_true(!tap_lane_of(lane) == LIST_EMPTY(&lane->consumers));
    if (!tap_lane_of(lane))
        return;
    const struct consumer *tap = &tap_lane_of(lane)->consumer;
    assert_int_equal(tap->lane->rank, lane->rank);
    assert_int_equal(tap->cursor, lane->base + lane->length);
    assert_true(tap->end <= max_u64(tap->cursor, lane->end));
    const struct consumer *consumer;
    LIST_FOREACH(consumer, &lane->consumers, link)
        assert_true(consumer_at_end(consumer) || consumer->end <= tap->end);
    assert_int_equal(tap->held_count, 0);
}

// A batch stays in the source's slot while it is copied.
static inline void check_copy(const struct fixture *pool, uint32_t slot) {
    uint32_t source = pool->tap.slots[slot].source;
    const struct ring_slot *copy = ring_slot(&pool->ring, slot);
    const struct ring_slot *original = ring_slot(&pool->source->ring, source);
    assert_int_equal(pool->source->delivery.slots[source].phase, SLOT_READY);
    assert_int_equal(copy->source, source);
    assert_int_equal(copy->run, original->run);
    assert_int_equal(copy->sequence, original->sequence);
    assert_int_equal(copy->rank, original->rank);
}

static inline void check_window(const struct fixture *fixture, const struct lane *lane,
                                uint32_t *in_windows) {
    const struct delivery *delivery = &fixture->delivery;
    uint32_t slots = fixture->ring.header->slot_count;
    uint64_t run =
        fixture->source ? fixture->source->delivery.run : delivery->run; // lanes end with their run
    if (slots == 0) {
        fail_msg("a ring without slots");
        return;
    }
    assert_true(lane->length <= slots && lane->ready <= lane->length);
    for (uint32_t i = 0; i < lane->length; i++) {
        uint32_t slot = lane->window[(lane->window_start + i) % slots];
        const struct slot_state *state = &delivery->slots[slot];
        assert_int_equal(in_windows[slot]++, 0);
        assert_true(state->in_window);
        assert_ptr_equal(state->lane, lane);
        assert_int_equal(state->sequence, lane->base + i);
        assert_int_equal(ring_slot(&fixture->ring, slot)->run, run);
        assert_int_equal(ring_slot(&fixture->ring, slot)->sequence, lane->base + i);
        assert_int_equal(ring_slot(&fixture->ring, slot)->rank, lane->rank);
        assert_int_equal(state->phase, i < lane->ready ? SLOT_READY : SLOT_FILLING);
    }
}

static inline void check_consumer(const struct fixture *fixture, const struct consumer *consumer) {
    uint32_t held = 0;
    for (uint32_t slot = 0; slot < fixture->ring.header->slot_count; slot++) {
        if (!is_held(consumer, slot))
            continue;
        held++;
        assert_int_equal(fixture->delivery.slots[slot].phase, SLOT_READY);
        assert_ptr_equal(fixture->delivery.slots[slot].lane, consumer->lane);
    }
    assert_int_equal(held, consumer->held_count);
    assert_true(held <= consumer->prefetch);
    assert_true(consumer->cursor <= consumer->end);
    assert_true(consumer_at_end(consumer) || consumer->cursor >= consumer->lane->base);
}

// Consumers that hold the slot, and those that have yet to be granted it.
static inline uint32_t due_references(const struct fixture *fixture, uint32_t slot) {
    const struct slot_state *state = &fixture->delivery.slots[slot];
    const struct consumer *all[ALL_MOST];
    uint32_t references = 0, count = list_consumers(fixture, all);
    for (uint32_t i = 0; i < count; i++) {
        references += is_held(all[i], slot);
        references += state->in_window && all[i]->lane == state->lane && state->sequence >= all[i]->cursor &&
                      state->sequence < all[i]->end;
    }
    return references;
}

static inline void check_slot(const struct fixture *fixture, uint32_t slot, uint32_t in_windows) {
    const struct slot_state *state = &fixture->delivery.slots[slot];
    assert_int_equal(state->in_window, in_windows);
    assert_int_equal(state->references, due_references(fixture, slot));
    if (state->phase == SLOT_FREE) {
        assert_null(state->lane);
        assert_false(ring_slot_busy(&fixture->ring, slot));
    }
    // A slot that nobody can be granted any more is held by somebody, or being copied.
    if (state->phase == SLOT_READY && !state->in_window)
        assert_true(state->references > 0 || state->copies > 0);
    if (state->phase == SLOT_FILLING && !state->lane)
        assert_int_equal(state->references, 0);
    assert_int_equal(state->copies, count_copies(fixture, slot));
    if (state->phase == SLOT_FILLING && fixture->source)
        check_copy(fixture, slot);
}

static inline void check_counts(const struct fixture *fixture) {
    const struct delivery *delivery = &fixture->delivery;
    uint32_t slots = fixture->ring.header->slot_count, ready = 0, free_slots = 0, abandoned = 0, moving = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct slot_state *state = &delivery->slots[slot];
        ready += state->phase == SLOT_READY;
        free_slots += state->phase == SLOT_FREE && slot < delivery->slot_count;
        assert_true(state->phase == SLOT_FREE || slot < delivery->slot_count);
        abandoned += state->phase == SLOT_FILLING && !state->lane;
        moving += state->moves;
        assert_true(!state->moves || (state->phase == SLOT_FILLING && state->lane));
    }
    assert_int_equal(delivery->ready_count, ready);
    assert_int_equal(delivery->free_count, free_slots);
    assert_int_equal(delivery->abandoned, abandoned);
    assert_int_equal(delivery->moving, moving);
    uint8_t *listed = calloc(slots + 1, 1);
    assert_non_null(listed);
    for (uint32_t i = 0; i < delivery->free_count; i++) {
        assert_int_equal(delivery->slots[delivery->free_slots[i]].phase, SLOT_FREE);
        assert_int_equal(listed[delivery->free_slots[i]]++, 0);
    }
    free(listed);
}

static inline void check_everything(const struct fixture *fixture) {
    const struct delivery *delivery = &fixture->delivery;
    uint32_t slots = fixture->ring.header->slot_count, lanes = 0, consumers = 0;
    uint32_t *in_windows = calloc(slots + 1, sizeof *in_windows);
    const struct lane *lane;
    assert_non_null(in_windows);
    LIST_FOREACH(lane, &delivery->lanes, link) {
        uint32_t used = 0;
        for (uint32_t slot = 0; slot < slots; slot++)
            used += delivery->slots[slot].lane == lane;
        assert_int_equal(lane->slots_used, used);
        assert_true(used <= slots / delivery->lane_limit);
        check_window(fixture, lane, in_windows);
        if (fixture->source)
            check_tap(lane);
        lanes++;
    }
    assert_int_equal(delivery->lane_count, lanes);
    assert_true(lanes <= delivery->lane_limit);
    for (uint32_t slot = 0; slot < slots; slot++)
        check_slot(fixture, slot, in_windows[slot]);
    const struct consumer *all[ALL_MOST];
    consumers = list_consumers(fixture, all);
    for (uint32_t i = 0; i < consumers; i++)
        check_consumer(fixture, all[i]);
    assert_int_equal(delivery->consumer_count, consumers);
    check_counts(fixture);
    free(in_windows);
    for (int i = 0; i < POOLS_MOST; i++)
        if (fixture->pools[i] && fixture->pools[i]->delivery.ring)
            check_everything(fixture->pools[i]);
}

#endif
