// A feed's bookkeeping over a real ring, with loaders that work when the test says so, and a check of every
// slot and count that can be made after each step.
#ifndef FEEDD_TESTS_DELIVERY_FIXTURE_H
#define FEEDD_TESTS_DELIVERY_FIXTURE_H

#include "daemon/supervisor/delivery.h"
#include "tests/unit/ring_fixture.h"

#define CONSUMERS_MOST 8
#define CLAIMS_MOST    64
#define BATCH          4u

struct fixture {
    struct ring ring;
    struct delivery delivery;
    struct consumer *consumers[CONSUMERS_MOST]; // attached ones, NULL elsewhere
    struct ring_claim claims[CLAIMS_MOST];
    uint32_t owners[CLAIMS_MOST];
    uint32_t claim_count;
};

static inline void open_fixture(struct fixture *fixture, uint32_t slots, uint32_t lanes,
                                const struct partition *partition) {
    *fixture = (struct fixture){0};
    fixture_ring(&fixture->ring, &(struct ring_shape){slots, BATCH, 2, 1});
    assert_int_equal(delivery_open(&fixture->delivery, &fixture->ring, partition, lanes), 0);
}

static inline void close_fixture(struct fixture *fixture) {
    delivery_close(&fixture->delivery);
    ring_unmap(&fixture->ring);
    for (int i = 0; i < CONSUMERS_MOST; i++)
        free(fixture->consumers[i]);
}

// ---- Invariants -------------------------------------------------------------------------------------------

static inline bool is_held(const struct consumer *consumer, uint32_t slot) {
    return consumer && consumer->held[slot / 64] >> (slot % 64) & 1;
}

static inline void check_window(const struct fixture *fixture, const struct lane *lane,
                                uint32_t *in_windows) {
    const struct delivery *delivery = &fixture->delivery;
    uint32_t slots = fixture->ring.header->slot_count;
    assert_true(lane->length <= slots && lane->ready <= lane->length);
    for (uint32_t i = 0; i < lane->length; i++) {
        uint32_t slot = lane->window[(lane->window_start + i) % slots];
        const struct slot_state *state = &delivery->slots[slot];
        assert_int_equal(in_windows[slot]++, 0);
        assert_true(state->in_window);
        assert_ptr_equal(state->lane, lane);
        assert_int_equal(state->sequence, lane->base + i);
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

// Consumers that hold the slot, and those that are still to be granted it.
static inline uint32_t due_references(const struct fixture *fixture, uint32_t slot) {
    const struct slot_state *state = &fixture->delivery.slots[slot];
    uint32_t references = 0;
    for (int i = 0; i < CONSUMERS_MOST; i++) {
        const struct consumer *consumer = fixture->consumers[i];
        if (!consumer)
            continue;
        references += is_held(consumer, slot);
        references += state->in_window && consumer->lane == state->lane &&
                      state->sequence >= consumer->cursor && state->sequence < consumer->end;
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
    // A slot that nobody can be granted any more is held by somebody, or its loaders are still at it.
    if (state->phase == SLOT_READY && !state->in_window)
        assert_true(state->references > 0);
    if (state->phase == SLOT_FILLING && !state->lane)
        assert_int_equal(state->references, 0);
}

static inline void check_counts(const struct fixture *fixture) {
    const struct delivery *delivery = &fixture->delivery;
    uint32_t slots = fixture->ring.header->slot_count, ready = 0, free_slots = 0, abandoned = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        const struct slot_state *state = &delivery->slots[slot];
        ready += state->phase == SLOT_READY;
        free_slots += state->phase == SLOT_FREE;
        abandoned += state->phase == SLOT_FILLING && !state->lane;
    }
    assert_int_equal(delivery->ready_count, ready);
    assert_int_equal(delivery->free_count, free_slots);
    assert_int_equal(delivery->abandoned, abandoned);
    uint8_t *listed = calloc(slots, 1);
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
    uint32_t *in_windows = calloc(slots, sizeof *in_windows);
    const struct lane *lane;
    assert_non_null(in_windows);
    LIST_FOREACH(lane, &delivery->lanes, link) {
        uint32_t used = 0;
        for (uint32_t slot = 0; slot < slots; slot++)
            used += delivery->slots[slot].lane == lane;
        assert_int_equal(lane->slots_used, used);
        assert_true(used <= slots / delivery->lane_limit);
        check_window(fixture, lane, in_windows);
        lanes++;
    }
    assert_int_equal(delivery->lane_count, lanes);
    assert_true(lanes <= delivery->lane_limit);
    for (uint32_t slot = 0; slot < slots; slot++)
        check_slot(fixture, slot, in_windows[slot]);
    for (int i = 0; i < CONSUMERS_MOST; i++)
        if (fixture->consumers[i]) {
            check_consumer(fixture, fixture->consumers[i]);
            consumers++;
        }
    assert_int_equal(delivery->consumer_count, consumers);
    check_counts(fixture);
    free(in_windows);
}

// ---- Loaders ----------------------------------------------------------------------------------------------

static inline bool claim_one(struct fixture *fixture, uint32_t owner) {
    struct ring_claim *claim = &fixture->claims[fixture->claim_count];
    if (fixture->claim_count == CLAIMS_MOST || !ring_claim(&fixture->ring, owner, claim))
        return false;
    fixture->owners[fixture->claim_count++] = owner;
    return true;
}

static inline struct ring_claim drop_claim(struct fixture *fixture, uint32_t at) {
    struct ring_claim claim = fixture->claims[at];
    fixture->claims[at] = fixture->claims[--fixture->claim_count];
    fixture->owners[at] = fixture->owners[fixture->claim_count];
    return claim;
}

static inline void finish_claim(struct fixture *fixture, uint32_t at) {
    struct ring_claim claim = drop_claim(fixture, at);
    fixture_fill(&fixture->ring, &claim);
    (void)!ring_chunk_done(&fixture->ring, &claim, 0);
}

// False when there was nothing to do.
static inline bool fill_all(struct fixture *fixture) {
    bool worked = fixture->claim_count > 0;
    do
        while (fixture->claim_count)
            finish_claim(fixture, 0);
    while (claim_one(fixture, 1) && (worked = true));
    return worked;
}

// Loaders and supervisor until nothing moves any more.
static inline void settle(struct fixture *fixture) {
    do
        assert_int_equal(delivery_pump(&fixture->delivery), 0);
    while (fill_all(fixture));
}

// ---- Consumers --------------------------------------------------------------------------------------------

static const struct start_position anywhere = {0};

static inline struct consumer *try_join(struct fixture *fixture, uint32_t rank, uint64_t epochs,
                                        const struct start_position *start, uint32_t prefetch, int *failed) {
    struct error error = {0};
    struct consumer *consumer = calloc(1, sizeof *consumer);
    assert_non_null(consumer);
    *failed = delivery_join(&fixture->delivery, consumer, rank, epochs, start, prefetch, &error);
    if (*failed) {
        assert_int_equal(error.code, *failed);
        assert_true(strlen(error.text) > 20);
        free(consumer);
        return NULL;
    }
    for (int i = 0; i < CONSUMERS_MOST; i++)
        if (!fixture->consumers[i])
            return fixture->consumers[i] = consumer;
    fail_msg("too many consumers");
    return NULL;
}

static inline struct consumer *join(struct fixture *fixture, uint32_t rank, uint64_t epochs,
                                    const struct start_position *start, uint32_t prefetch) {
    int failed = 0;
    struct consumer *consumer = try_join(fixture, rank, epochs, start, prefetch, &failed);
    assert_int_equal(failed, 0);
    return consumer;
}

static inline void leave(struct fixture *fixture, struct consumer *consumer) {
    delivery_leave(&fixture->delivery, consumer);
    for (int i = 0; i < CONSUMERS_MOST; i++)
        if (fixture->consumers[i] == consumer)
            fixture->consumers[i] = NULL;
    free(consumer);
}

// What is in a slot is the batch of that number, of the consumer's rank, whole.
static inline void check_batch(const struct fixture *fixture, const struct consumer *consumer, uint32_t slot,
                               uint64_t sequence) {
    const struct ring_slot *batch = ring_slot(&fixture->ring, slot);
    struct batch_place place;
    assert_int_equal(partition_locate(&fixture->delivery.partition, consumer->lane->rank, sequence, &place),
                     0);
    assert_int_equal(batch->sequence, sequence);
    assert_int_equal(batch->rank, consumer->lane->rank);
    assert_int_equal(batch->epoch, place.epoch);
    assert_int_equal(batch->first_position, place.first_position);
    assert_int_equal(batch->count, place.count);
    assert_int_equal(batch->consumed, place.consumed);
    assert_int_equal(batch->last_of_epoch, place.last_of_epoch);
    assert_true(fixture_batch_is_whole(&fixture->ring, slot));
}

// Takes what there is, up to `most`, and checks that it comes in order.
static inline uint32_t take(struct fixture *fixture, struct consumer *consumer, uint32_t most) {
    uint32_t slots[64];
    uint64_t due = consumer->cursor, sequence = UINT64_MAX;
    uint32_t count = delivery_grant(&fixture->delivery, consumer, &sequence, slots, most < 64 ? most : 64);
    assert_int_equal(sequence, due);
    for (uint32_t i = 0; i < count; i++)
        check_batch(fixture, consumer, slots[i], due + i);
    return count;
}

static inline uint32_t held_slot(const struct fixture *fixture, const struct consumer *consumer,
                                 uint32_t number) {
    for (uint32_t slot = 0; slot < fixture->ring.header->slot_count; slot++)
        if (is_held(consumer, slot) && number-- == 0)
            return slot;
    fail_msg("it does not hold so many");
    return 0;
}

// Gives back the number-th of its slots, which must still hold what was granted.
static inline void give_back(struct fixture *fixture, struct consumer *consumer, uint32_t number) {
    uint32_t slot = held_slot(fixture, consumer, number);
    check_batch(fixture, consumer, slot, fixture->delivery.slots[slot].sequence);
    assert_int_equal(delivery_release(&fixture->delivery, consumer, slot), 0);
    assert_int_equal(delivery_release(&fixture->delivery, consumer, slot), -EINVAL);
}

#endif
