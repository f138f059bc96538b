// The ring's queue and its odd corners: what the cursor passes over, what is left to claim, failures and withdrawals.
// test_ring.c has the usual way of a batch.
#include "base/sizes.h"
#include "tests/unit/pool_fixture.h"

#define BATCH 10u
#define CHUNK 3u // 3 + 3 + 3 + 1

static const struct ring_shape shape = {.slots = 3, .batch = BATCH, .chunk_samples = CHUNK, .words = 2};
static struct ring ring;

static int open_ring(void **state) {
    (void)state;
    fixture_ring(&ring, &shape);
    return 0;
}

static int close_ring(void **state) {
    (void)state;
    ring_unmap(&ring);
    return 0;
}

static bool try_dispatch(uint32_t slot, uint64_t sequence, uint64_t count) {
    struct batch_place place = fixture_place(sequence, count, BATCH);
    return ring_dispatch(&ring, slot, &(struct ring_batch){.run = 1, .sequence = sequence}, &place);
}

static struct ring_claim claim_next(uint32_t owner) {
    struct ring_claim claim;
    assert_true(ring_claim(&ring, owner, &claim));
    return claim;
}

static void finish(const struct ring_claim *claim) {
    fixture_fill(&ring, claim);
    (void)!ring_chunk_done(&ring, claim, 0);
}

// A loader claims the chunk, and dies before it moves the cursor.
static void claim_behind_the_cursor(uint32_t slot, uint32_t chunk, uint32_t owner) {
    atomic_store(&ring_chunks(&ring, slot)[chunk], chunk_word(CHUNK_CLAIMED, owner, 0));
}

// ... and another one does its work without looking at the queue.
static void leave_spent_entry(uint32_t owner) {
    assert_true(try_dispatch(0, owner, 1));
    claim_behind_the_cursor(0, 0, owner);
    assert_int_equal(ring_recover(&ring, owner), 1);
    struct ring_claim claim = claim_next(500);
    finish(&claim);
    assert_int_equal(ring_slot_poll(&ring, 0), RING_SLOT_READY);
    ring_slot_free(&ring, 0);
}

// ---- The cursor --------------------------------------------------------------------------------------------

static void test_a_claim_passes_over_what_is_taken(void **state) {
    (void)state;
    assert_true(try_dispatch(0, 0, BATCH));
    claim_behind_the_cursor(0, 0, 7);
    assert_int_equal(claim_next(1).chunk, 1);
    claim_behind_the_cursor(0, 2, 8);
    assert_int_equal(claim_next(1).chunk, 3);
    struct ring_claim none;
    assert_false(ring_claim(&ring, 1, &none));
}

// What the loader claims in turn, of the slot: chunks.
static void expect_claims(struct ring *loader, uint32_t slot, const uint32_t *chunks, uint32_t count) {
    struct ring_claim claim;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(ring_claim(loader, 1 + loader->stripe, &claim));
        assert_int_equal(claim.slot, slot);
        assert_int_equal(claim.chunk, chunks[i]);
        assert_int_equal(claim.first_sample, chunks[i] * CHUNK);
        finish(&claim);
    }
}

static void test_a_loader_claims_its_own_stripe_first(void **state) {
    (void)state;
    struct ring first = ring, second = ring;
    struct ring_claim none;
    first.stripes = second.stripes = 2;
    second.stripe = 1;
    for (uint32_t slot = 0; slot < 2; slot++)
        assert_true(try_dispatch(slot, slot, BATCH));
    expect_claims(&second, 0, (uint32_t[]){2}, 1);
    assert_int_equal(ring_unclaimed(&ring), 2); // as far as the cursor says
    expect_claims(&first, 0, (uint32_t[]){0}, 1);
    expect_claims(&second, 0, (uint32_t[]){3, 1}, 2); // the last one is the other's
    assert_int_equal(ring_slot_poll(&ring, 0), RING_SLOT_READY);
    expect_claims(&first, 1, (uint32_t[]){0, 1, 2, 3}, 4); // all that there is, if nobody else comes
    assert_int_equal(ring_slot_poll(&ring, 1), RING_SLOT_READY);
    assert_false(ring_claim(&second, 2, &none));
    assert_int_equal(atomic_load(&ring.control->claim_cursor), 8); // so nobody stays awake for it
    assert_true(fixture_batch_is_whole(&ring, 0) && fixture_batch_is_whole(&ring, 1));
}

// Stripes without a chunk, and a batch that is shorter than its slot.
static void test_more_stripes_than_chunks(void **state) {
    (void)state;
    struct ring loader = ring;
    struct ring_claim none;
    loader.stripes = 6;
    assert_true(try_dispatch(0, 0, BATCH));
    expect_claims(&loader, 0, (uint32_t[]){0}, 1);
    loader.stripe = 5;
    expect_claims(&loader, 0, (uint32_t[]){3, 1, 2}, 3);
    assert_true(try_dispatch(1, 1, CHUNK + 1));
    expect_claims(&loader, 1, (uint32_t[]){0, 1}, 2);
    assert_false(ring_claim(&loader, 6, &none));
}

// Batches of which no chunk has been looked at yet, whatever the cursor is.
static void test_what_is_left_to_claim_is_counted_in_batches(void **state) {
    (void)state;
    assert_int_equal(ring_unclaimed(&ring), 0);
    for (uint32_t slot = 0; slot < 3; slot++)
        assert_true(try_dispatch(slot, slot, BATCH));
    for (uint32_t claimed = 0; claimed <= 12; claimed++) {
        assert_int_equal(ring_unclaimed(&ring), 3 - divide_up(claimed, 4));
        if (claimed < 12)
            claim_next(1);
    }
    atomic_store(&ring.control->claim_cursor, UINT64_MAX);
    assert_int_equal(ring_unclaimed(&ring), 0);
}

// ---- A full queue ------------------------------------------------------------------------------------------

static void test_the_supervisor_does_not_pass_over_a_chunk_that_waits(void **state) {
    (void)state;
    for (uint32_t owner = 1; owner < ring.header->queue_entries; owner++)
        leave_spent_entry(owner);
    assert_true(try_dispatch(0, 99, BATCH));
    claim_behind_the_cursor(0, 0, 7);
    assert_int_equal(atomic_load(&ring.control->claim_cursor), 0);
    assert_false(try_dispatch(1, 100, BATCH));
    assert_int_equal(atomic_load(&ring.control->claim_cursor), 1);
    assert_int_equal(claim_next(1).chunk, 1);
}

// One that was written over by a loader that has gone wrong: what lies after the last slot's words is not a chunk.
static void test_an_entry_that_names_no_slot_is_passed_over(void **state) {
    (void)state;
    for (uint32_t owner = 1; owner <= ring.header->queue_entries; owner++)
        leave_spent_entry(owner);
    for (uint32_t entry = 0; entry < ring.header->queue_entries; entry++)
        atomic_store(ring_queue_entry(&ring, entry), ring.header->slot_count);
    for (uint32_t i = 0; i < 4; i++)
        atomic_store(&ring_chunks(&ring, 2)[4 + i], chunk_word(CHUNK_FREE, 0, 0));
    assert_true(try_dispatch(1, 100, BATCH));
}

static void test_a_full_queue_takes_no_copy(void **state) {
    (void)state;
    struct ring pool;
    struct ring_claim claim;
    pool_ring(&pool, &shape);
    assert_true(try_dispatch(0, 0, BATCH));
    for (uint32_t owner = 1; owner < pool.header->queue_entries; owner++) {
        assert_true(ring_dispatch_copy(&pool, 0, &ring, 0, 0));
        atomic_store(&ring_chunks(&pool, 0)[0], chunk_word(CHUNK_CLAIMED, owner, 0));
        assert_int_equal(ring_recover(&pool, owner), 1);
        assert_true(ring_claim(&pool, 500, &claim));
        (void)!ring_chunk_done(&pool, &claim, 0);
        ring_slot_free(&pool, 0);
    }
    assert_true(ring_dispatch_copy(&pool, 0, &ring, 0, 0));
    uint64_t fill = ring_dispatched(&pool, 1)->fill;
    assert_false(ring_dispatch_copy(&pool, 1, &ring, 0, 0));
    assert_int_equal(ring_dispatched(&pool, 1)->fill, fill);
    ring_unmap(&pool);
}

// ---- Marks of unreadable samples ---------------------------------------------------------------------------

static void test_a_copy_takes_the_marks_of_its_own_batch(void **state) {
    (void)state;
    struct ring pool;
    pool_ring(&pool, &shape);
    assert_true(try_dispatch(0, 0, BATCH));
    ring.dispatched[0].skipped = 2;
    atomic_store(&ring_skips(&ring, 0)[0], 5);
    atomic_store(&ring_skips(&ring, 1)[0], 6);
    atomic_store(&ring_skips(&pool, 1)[0], 7);
    assert_true(ring_dispatch_copy(&pool, 0, &ring, 0, 0));
    assert_int_equal(atomic_load(&ring_skips(&pool, 0)[0]), 5);
    assert_int_equal(atomic_load(&ring_skips(&pool, 1)[0]), 7);
    ring_unmap(&pool);
}

static void test_a_new_batch_has_no_marks_and_leaves_those_of_others(void **state) {
    (void)state;
    for (uint32_t slot = 0; slot < 3; slot++)
        atomic_store(&ring_skips(&ring, slot)[0], UINT64_MAX);
    assert_true(try_dispatch(1, 0, BATCH));
    assert_int_equal(atomic_load(&ring_skips(&ring, 0)[0]), UINT64_MAX);
    assert_int_equal(atomic_load(&ring_skips(&ring, 1)[0]), 0);
    assert_int_equal(atomic_load(&ring_skips(&ring, 2)[0]), UINT64_MAX);
}

// ---- Failures and withdrawals ------------------------------------------------------------------------------

static void test_after_a_failure_was_forgotten_the_next_one_is_told(void **state) {
    (void)state;
    struct ring_error failure;
    assert_true(try_dispatch(2, 0, BATCH));
    struct ring_claim first = claim_next(5), second = claim_next(6);
    (void)!ring_chunk_failed(&ring, &first, -EIO, 1, 2, 3);
    ring_forget_failure(&ring, 1); // of another slot
    assert_int_equal(atomic_load(&ring.control->failure.state), RING_FAILURE_COMPLETE);
    ring_forget_failure(&ring, 2);
    assert_false(ring_take_failure(&ring, &failure));
    (void)!ring_chunk_failed(&ring, &second, -ENODATA, 4, 5, 6);
    assert_true(ring_take_failure(&ring, &failure));
    assert_int_equal(failure.code, -ENODATA);
    assert_int_equal(failure.slot, 2);
    assert_int_equal(failure.file, 4);
    assert_int_equal(failure.offset, 5);
    assert_int_equal(failure.sample, 6);
}

static void test_what_is_withdrawn_is_not_claimed(void **state) {
    (void)state;
    struct ring_claim none;
    assert_true(try_dispatch(0, 0, 6));
    struct ring_claim kept = claim_next(1);
    ring_slot_withdraw(&ring, 0);
    assert_true(ring_slot_busy(&ring, 0));
    assert_false(ring_claim(&ring, 2, &none));
    finish(&kept);
    assert_false(ring_slot_busy(&ring, 0));
}

static void test_a_repair_is_withdrawn_too(void **state) {
    (void)state;
    struct ring_claim claim, none;
    assert_true(try_dispatch(0, 0, 3));
    claim = claim_next(1);
    ring_skip_sample(&ring, &claim, 1);
    (void)!ring_chunk_done(&ring, &claim, 1);
    assert_int_equal(ring_slot_poll(&ring, 0), RING_SLOT_FILLING);
    assert_true(ring_slot_busy(&ring, 0));
    ring_slot_withdraw(&ring, 0);
    assert_false(ring_slot_busy(&ring, 0));
    assert_false(ring_claim(&ring, 2, &none));
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, open_ring, close_ring)
    const struct CMUnitTest tests[] = {
        CASE(test_a_claim_passes_over_what_is_taken),
        CASE(test_a_loader_claims_its_own_stripe_first),
        CASE(test_more_stripes_than_chunks),
        CASE(test_what_is_left_to_claim_is_counted_in_batches),
        CASE(test_the_supervisor_does_not_pass_over_a_chunk_that_waits),
        CASE(test_an_entry_that_names_no_slot_is_passed_over),
        CASE(test_a_full_queue_takes_no_copy),
        CASE(test_a_copy_takes_the_marks_of_its_own_batch),
        CASE(test_a_new_batch_has_no_marks_and_leaves_those_of_others),
        CASE(test_after_a_failure_was_forgotten_the_next_one_is_told),
        CASE(test_what_is_withdrawn_is_not_claimed),
        CASE(test_a_repair_is_withdrawn_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
