// A feed's bookkeeping over a real ring, with loaders that work when the test says so, and a check of every slot and
// count to make after each step. A device pool is another of these: its loader copies from the ring of its source, and
// its consumers release batches twice, by message and, some time later, on their streams.
#ifndef FEEDD_TESTS_UNIT_DELIVERY_FIXTURE_H
#define FEEDD_TESTS_UNIT_DELIVERY_FIXTURE_H

#include "base/error.h"
#include "daemon/supervisor/delivery/abandoned.h"
#include "tests/unit/delivery_check.h"

// Of the ring's slots, the first `there` have been allocated.
static inline void open_partly(struct fixture *fixture, uint32_t slots, uint32_t there, uint32_t lanes,
                               const struct partition *partition) {
    *fixture = (struct fixture){0};
    fixture_ring(&fixture->ring, &(struct ring_shape){slots, BATCH, 2, 1});
    const struct filler *filler = &fixture->fill.filler;
    loaders_fill_init(&fixture->fill, NULL);
    assert_int_equal(delivery_open(&fixture->delivery, &fixture->ring, partition, lanes, filler, there), 0);
}

static inline void open_fixture(struct fixture *fixture, uint32_t slots, uint32_t lanes,
                                const struct partition *partition) {
    open_partly(fixture, slots, slots, lanes, partition);
}

static inline void open_pool(struct fixture *pool, struct fixture *source, uint32_t slots) {
    *pool = (struct fixture){.source = source};
    pool_ring(&pool->ring, &(struct ring_shape){slots, BATCH, BATCH, 1});
    // GPU memory.
    pool->ring.data = calloc(slots, pool->ring.header->slot_bytes);
    assert_non_null(pool->ring.data);
    assert_int_equal(delivery_open(&pool->delivery, &pool->ring, &source->delivery.partition,
                                   source->delivery.lane_limit, tap_open(&pool->tap, &source->delivery),
                                   slots),
                     0);
    for (int i = 0; i < POOLS_MOST; i++)
        if (!source->pools[i]) {
            source->pools[i] = pool;
            return;
        }
    fail_msg("too many pools");
}

static inline void close_fixture(struct fixture *fixture) {
    for (int i = 0; i < POOLS_MOST; i++)
        if (fixture->pools[i])
            close_fixture(fixture->pools[i]);
    if (fixture->delivery.ring)
        delivery_close(&fixture->delivery);
    if (fixture->source)
        free(fixture->ring.data);
    ring_unmap(&fixture->ring);
    for (int i = 0; i < CONSUMERS_MOST; i++)
        free(fixture->consumers[i]);
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

// The loader with that number dies; the next one claims what it had claimed.
static inline void replace_loader(struct fixture *fixture, uint32_t owner) {
    for (uint32_t at = 0; at < fixture->claim_count;)
        if (fixture->owners[at] == owner)
            drop_claim(fixture, at);
        else
            at++;
    ring_recover(&fixture->ring, owner);
}

// The loader with that number was killed and does not end; its claims stay.
static inline uint32_t leave_behind(struct fixture *fixture, uint32_t owner) {
    return abandoned_leave(&fixture->delivery, owner, 2, 1);
}

// It ends at last.
static inline void end_behind(struct fixture *fixture, uint32_t owner) {
    replace_loader(fixture, owner);
    abandoned_withdraw(&fixture->delivery);
}

// Every consumer that was granted what is in a pool's slot has released it on its stream.
static inline bool may_copy(const struct fixture *pool, const struct ring_claim *claim) {
    const struct ring_slot *batch = ring_slot(&pool->ring, claim->slot);
    for (uint32_t i = 0; i < CONSUMERS_MOST; i++)
        if (atomic_load(&batch->unread) >> i & 1 && pool->words[i][claim->slot] + 1 < batch->fill)
            return false;
    return true;
}

static inline void finish_claim(struct fixture *fixture, uint32_t at) {
    struct ring_claim claim = drop_claim(fixture, at);
    if (fixture->source)
        memcpy(ring_slot_data(&fixture->ring, claim.slot),
               ring_slot_data(&fixture->source->ring, ring_slot(&fixture->ring, claim.slot)->source),
               fixture->ring.header->slot_bytes);
    else
        fixture_fill(&fixture->ring, &claim);
    (void)!ring_chunk_done(&fixture->ring, &claim, 0);
}

// The streams of a pool's consumers finish what is queued on them.
static inline void run_streams(struct fixture *pool) {
    memcpy(pool->words, pool->released, sizeof pool->words);
}

// False when there was nothing to do.
static inline bool fill_all(struct fixture *fixture) {
    bool worked = fixture->claim_count > 0;
    run_streams(fixture);
    do
        while (fixture->claim_count) {
            assert_true(!fixture->source || may_copy(fixture, &fixture->claims[0]));
            finish_claim(fixture, 0);
        }
    while (claim_one(fixture, 1) && (worked = true));
    for (int i = 0; i < POOLS_MOST; i++)
        if (fixture->pools[i] && fixture->pools[i]->delivery.ring)
            worked |= fill_all(fixture->pools[i]);
    return worked;
}

// True: the source has free slots again.
static inline bool pump_pools(struct fixture *fixture) {
    uint32_t before = fixture->delivery.free_count;
    for (int i = 0; i < POOLS_MOST; i++)
        if (fixture->pools[i] && fixture->pools[i]->delivery.ring)
            assert_int_equal(delivery_pump(&fixture->pools[i]->delivery), 0);
    return fixture->delivery.free_count > before;
}

// As pump_feed.
static inline void pump(struct fixture *fixture) {
    pump_pools(fixture);
    do
        assert_int_equal(delivery_pump(&fixture->delivery), 0);
    while (pump_pools(fixture));
}

// Runs loaders and supervisor until nothing moves any more.
static inline void settle(struct fixture *fixture) {
    do
        pump(fixture);
    while (fill_all(fixture));
}

// ---- Consumers --------------------------------------------------------------------------------------------

static const struct start_position anywhere = {0};

static inline struct consumer *try_join(struct fixture *fixture, uint32_t rank, uint64_t epochs,
                                        const struct start_position *start, uint32_t prefetch, int *failed) {
    struct error error = {0};
    struct consumer *consumer = calloc(1, sizeof *consumer);
    assert_non_null(consumer);
    while (consumer->bit < CONSUMERS_MOST && fixture->consumers[consumer->bit])
        consumer->bit++;
    if (consumer->bit == CONSUMERS_MOST)
        fail_msg("too many consumers");
    memset(fixture->released[consumer->bit], 0, sizeof fixture->released[0]);
    memset(fixture->words[consumer->bit], 0, sizeof fixture->words[0]);
    *failed = delivery_join(&fixture->delivery, consumer, rank, epochs, start, prefetch, &error);
    if (*failed) {
        assert_int_equal(error.code, *failed);
        assert_true(strlen(error.text) > 20);
        free(consumer);
        return NULL;
    }
    return fixture->consumers[consumer->bit] = consumer;
}

static inline struct consumer *join(struct fixture *fixture, uint32_t rank, uint64_t epochs,
                                    const struct start_position *start, uint32_t prefetch) {
    int err = 0;
    struct consumer *consumer = try_join(fixture, rank, epochs, start, prefetch, &err);
    assert_int_equal(err, 0);
    return consumer;
}

static inline void leave(struct fixture *fixture, struct consumer *consumer) {
    delivery_leave(&fixture->delivery, consumer);
    for (int i = 0; i < CONSUMERS_MOST; i++)
        if (fixture->consumers[i] == consumer)
            fixture->consumers[i] = NULL;
    free(consumer);
}

// The slot holds the batch with that number, of the consumer's rank, complete.
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

// Takes up to `most` of the batches there are, and checks that they come in order.
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

// Gives back one of the slots it holds, by its number among them; the slot must still hold what was granted.
static inline void give_back(struct fixture *fixture, struct consumer *consumer, uint32_t number) {
    uint32_t slot = held_slot(fixture, consumer, number);
    check_batch(fixture, consumer, slot, fixture->delivery.slots[slot].sequence);
    fixture->released[consumer->bit][slot] = ring_slot(&fixture->ring, slot)->fill;
    assert_int_equal(delivery_release(&fixture->delivery, consumer, slot), 0);
    assert_int_equal(delivery_release(&fixture->delivery, consumer, slot), -EINVAL);
}

#endif
