// The ring in one thread: what loaders and supervisor leave in it, step by step; test_ring_object.c has its
// making.
#include "base/sizes.h"
#include "base/time.h"
#include "order/partition.h"
#include "shm/ring_loader.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/ring_fixture.h"

#define BATCH 10u
#define CHUNK 3u // 3 + 3 + 3 + 1

static const struct ring_shape shape = {.slots = 3, .batch = BATCH, .chunk_samples = CHUNK, .words = 2};

static int open_ring(void **state) {
    return fixture_set_up(state, &shape);
}

static void dispatch(struct ring *ring, uint32_t slot, uint64_t sequence, uint64_t count) {
    struct batch_place place = fixture_place(sequence, count, BATCH);
    assert_true(ring_dispatch(ring, slot, &(struct ring_batch){.run = 1, .sequence = sequence}, &place));
}

static struct ring_claim claim_next(struct ring *ring, uint32_t owner) {
    struct ring_claim claim;
    assert_true(ring_claim(ring, owner, &claim));
    return claim;
}

static void assert_nothing_to_do(struct ring *ring) {
    struct ring_claim claim;
    assert_false(ring_claim(ring, 99, &claim));
}

static uint64_t word_of(const struct ring *ring, uint32_t slot, uint32_t chunk) {
    return atomic_load(&ring_chunks(ring, slot)[chunk]);
}

static void finish(struct ring *ring, const struct ring_claim *claim) {
    fixture_fill(ring, claim);
    (void)!ring_chunk_done(ring, claim, 0);
}

static void finish_all(struct ring *ring, uint32_t owner) {
    struct ring_claim claim;
    while (ring_claim(ring, owner, &claim))
        finish(ring, &claim);
}

static void test_claims_come_in_order_with_their_tail(void **state) {
    struct ring *ring = *state;
    dispatch(ring, 2, 7, BATCH);
    dispatch(ring, 0, 8, 4);
    static const uint32_t expected[][4] = {{2, 0, 0, 3}, {2, 1, 3, 3}, {2, 2, 6, 3},
                                           {2, 3, 9, 1}, {0, 0, 0, 3}, {0, 1, 3, 1}};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        struct ring_claim claim = claim_next(ring, 5);
        assert_int_equal(claim.slot, expected[i][0]);
        assert_int_equal(claim.chunk, expected[i][1]);
        assert_int_equal(claim.first_sample, expected[i][2]);
        assert_int_equal(claim.count, expected[i][3]);
        assert_int_equal(claim.chunk_count, claim.slot == 2 ? 4 : 2);
        assert_int_equal(claim.epoch, 3);
        assert_int_equal(claim.first_position, (claim.slot == 2 ? 70 : 80) + claim.first_sample);
        assert_int_equal(word_of(ring, claim.slot, claim.chunk), chunk_word(CHUNK_CLAIMED, 5, 0));
    }
    assert_nothing_to_do(ring);
}

static void test_a_batch_is_ready_when_all_is_done(void **state) {
    struct ring *ring = *state;
    dispatch(ring, 1, 0, BATCH);
    for (uint32_t left = 4; left > 0; left--) {
        assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_FILLING);
        assert_true(ring_slot_busy(ring, 1));
        struct ring_claim claim = claim_next(ring, left);
        finish(ring, &claim);
    }
    assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_READY);
    assert_false(ring_slot_busy(ring, 1));
    assert_true(fixture_batch_is_whole(ring, 1));
    ring_slot_free(ring, 1);
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        assert_int_equal(word_of(ring, 1, chunk), CHUNK_IDLE);
    assert_nothing_to_do(ring);
}

static void test_a_batch_without_samples_is_ready_at_once(void **state) {
    struct ring *ring = *state;
    dispatch(ring, 0, 0, 0);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_READY);
    assert_int_equal(ring_slot(ring, 0)->count, 0);
    assert_nothing_to_do(ring);
    dispatch(ring, 1, 1, 1);
    assert_int_equal(claim_next(ring, 1).slot, 1);
}

// A shorter batch in a slot leaves no chunk of the longer one before it to be claimed.
static void test_a_slot_is_used_again_for_fewer_samples(void **state) {
    struct ring *ring = *state;
    for (uint64_t sequence = 0; sequence < 40; sequence++) {
        uint64_t count = 1 + sequence * 7 % BATCH;
        dispatch(ring, 0, sequence, count);
        finish_all(ring, 1);
        assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_READY);
        assert_int_equal(ring_slot(ring, 0)->chunk_count, divide_up(count, CHUNK));
        assert_int_equal(ring_slot(ring, 0)->sequence, sequence);
        assert_int_equal(ring_slot(ring, 0)->fill, sequence + 1);
        assert_true(fixture_batch_is_whole(ring, 0));
        ring_slot_free(ring, 0);
    }
}

// ---- Failures ---------------------------------------------------------------------------------------------

static void test_a_failed_chunk_fails_the_batch_with_its_reason(void **state) {
    struct ring *ring = *state;
    struct ring_error failure = {0};
    dispatch(ring, 0, 0, BATCH);
    struct ring_claim first = claim_next(ring, 1), second = claim_next(ring, 2);
    ring_supervisor_arm(ring);
    assert_false(ring_take_failure(ring, &failure));
    assert_true(ring_chunk_failed(ring, &first, -EIO, 3, 4096, 17));
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FAILED);
    assert_false(ring_chunk_failed(ring, &second, -ENODATA, 4, 1, 2));
    assert_true(ring_take_failure(ring, &failure));
    assert_int_equal(failure.code, -EIO);
    assert_int_equal(failure.file, 3);
    assert_int_equal(failure.offset, 4096);
    assert_int_equal(failure.sample, 17);
    assert_false(ring_take_failure(ring, &failure));
}

// The others still write into the slot when one has failed.
static void test_a_failed_slot_is_busy_until_the_last_chunk_has_ended(void **state) {
    struct ring *ring = *state;
    dispatch(ring, 0, 0, 6);
    struct ring_claim first = claim_next(ring, 1), second = claim_next(ring, 2);
    (void)!ring_chunk_failed(ring, &first, -EIO, 0, 0, 0);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FAILED);
    assert_true(ring_slot_busy(ring, 0));
    ring_supervisor_arm(ring);
    assert_true(ring_chunk_done(ring, &second, 0));
    assert_false(ring_slot_busy(ring, 0));
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FAILED);
}

// Two fail at once, and the one that writes down the reason is killed while doing so: the next one writes it.
static void test_a_reason_that_was_never_finished_is_given_up(void **state) {
    struct ring *ring = *state;
    struct ring_error failure = {0};
    dispatch(ring, 0, 0, BATCH);
    struct ring_claim second, first = claim_next(ring, 7);
    second = claim_next(ring, 8);
    atomic_store(&ring->control->failure.state, 7);
    (void)!ring_chunk_failed(ring, &second, -EIO, 1, 2, 3);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FILLING);
    assert_int_equal(ring_recover(ring, 6), 0);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FILLING);
    assert_int_equal(ring_recover(ring, 7), 1);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FAILED);
    assert_false(ring_take_failure(ring, &failure));
    for (int i = 0; i < 3; i++)
        first = claim_next(ring, 9);
    (void)!ring_chunk_failed(ring, &first, -ENODATA, 4, 5, 6);
    assert_true(ring_take_failure(ring, &failure));
    assert_int_equal(failure.code, -ENODATA);
    assert_int_equal(failure.sample, 6);
}

// ---- Recovery ---------------------------------------------------------------------------------------------

static void test_recovery_frees_what_the_dead_one_had_and_nothing_else(void **state) {
    struct ring *ring = *state;
    dispatch(ring, 0, 0, BATCH);
    dispatch(ring, 1, 1, BATCH);
    struct ring_claim claims[8];
    for (uint32_t i = 0; i < 8; i++)
        claims[i] = claim_next(ring, 1 + i % 2); // slot 0: 1 2 1 2, slot 1 the same
    finish(ring, &claims[0]);
    finish(ring, &claims[1]);
    assert_int_equal(ring_recover(ring, 3), 0);
    assert_int_equal(ring_recover(ring, 1), 3);
    assert_int_equal(word_of(ring, 0, 0), chunk_word(CHUNK_DONE, 0, 0));
    assert_int_equal(word_of(ring, 0, 1), chunk_word(CHUNK_DONE, 0, 0));
    assert_int_equal(word_of(ring, 0, 2), chunk_word(CHUNK_RECOVERED, 0, 0));
    assert_int_equal(word_of(ring, 0, 3), chunk_word(CHUNK_CLAIMED, 2, 0));
    assert_int_equal(ring_recover(ring, 1), 0);
    finish(ring, &claims[3]);
    finish(ring, &claims[5]);
    finish(ring, &claims[7]);
    finish_all(ring, 4);
    for (uint32_t slot = 0; slot < 2; slot++) {
        assert_int_equal(ring_slot_poll(ring, slot), RING_SLOT_READY);
        assert_true(fixture_batch_is_whole(ring, slot));
    }
}

static void test_recovery_wakes_and_arms(void **state) {
    struct ring *ring = *state;
    atomic_store(&ring->control->loaders_asleep, 1);
    atomic_store(&ring->control->supervisor_asleep, 0);
    uint32_t work = atomic_load(&ring->control->work);
    // It had nothing; but it may have been woken for what others sleep over, and have died between flag and
    // eventfd.
    assert_int_equal(ring_recover(ring, 1), 0);
    assert_int_not_equal(atomic_load(&ring->control->work), work);
    assert_int_equal(atomic_load(&ring->control->supervisor_asleep), 1);
}

static void assert_claimed(struct ring *ring, uint32_t slot, uint32_t chunk) {
    struct ring_claim claim = claim_next(ring, 9);
    assert_int_equal(claim.slot, slot);
    assert_int_equal(claim.chunk, chunk);
}

// Everybody waits for the oldest batch; one that was dispatched later can wait.
static void test_recovered_chunks_come_before_the_queue(void **state) {
    struct ring *ring = *state;
    for (uint32_t slot = 0; slot < 3; slot++)
        dispatch(ring, slot, slot, BATCH);
    for (uint32_t i = 0; i < 5; i++)
        claim_next(ring, i == 1 || i == 4 ? 1 : 2);
    uint64_t queued = atomic_load(&ring->control->queue_head);
    assert_int_equal(ring_recover(ring, 1), 2);
    assert_int_equal(atomic_load(&ring->control->queue_head), queued);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FILLING);
    assert_true(ring_slot_busy(ring, 0));
    assert_claimed(ring, 0, 1);
    assert_claimed(ring, 1, 0);
    for (uint32_t chunk = 1; chunk < 4; chunk++)
        assert_claimed(ring, 1, chunk);
    // Again, after the queue has been served in between, and by a loader that has seen none of it.
    assert_int_equal(ring_recover(ring, 2), 3);
    ring->urgent_seen = 0;
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        if (chunk != 1)
            assert_claimed(ring, 0, chunk);
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        assert_claimed(ring, 2, chunk);
    assert_nothing_to_do(ring);
    assert_int_equal(ring->urgent_seen, atomic_load(&ring->control->urgent_wanted));
}

// A loader that looks for the next job in the queue takes a recovered one there too, and the claim is counted
// once.
static void test_the_cursor_takes_a_recovered_chunk(void **state) {
    struct ring *ring = *state;
    dispatch(ring, 0, 0, BATCH);
    // It died before it moved the cursor.
    atomic_store(&ring_chunks(ring, 0)[0], chunk_word(CHUNK_CLAIMED, 7, 0));
    assert_int_equal(ring_recover(ring, 7), 1);
    ring->urgent_seen = atomic_load(&ring->control->urgent_wanted); // as one that scanned just before
    for (uint32_t chunk = 0; chunk < 4; chunk++)
        assert_claimed(ring, 0, chunk);
    ring->urgent_seen = 0;
    assert_nothing_to_do(ring);
}

static void test_the_next_batch_starts_without_recoveries(void **state) {
    struct ring *ring = *state;
    dispatch(ring, 0, 0, BATCH);
    claim_next(ring, 1);
    assert_int_equal(atomic_load(&ring_slot(ring, 0)->recovered), 0);
    assert_int_equal(ring_recover(ring, 1), 1);
    assert_int_equal(atomic_load(&ring_slot(ring, 0)->recovered), 1);
    finish_all(ring, 2);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_READY);
    assert_true(fixture_batch_is_whole(ring, 0));
    ring_slot_free(ring, 0);
    dispatch(ring, 0, 1, BATCH);
    assert_int_equal(atomic_load(&ring_slot(ring, 0)->recovered), 0);
}

// Loader after loader dies between its claim and the cursor, and somebody else finishes the chunk before looking
// at the queue: each time an entry is left behind.
static void leave_spent_entry(struct ring *ring, uint32_t owner) {
    dispatch(ring, 0, owner, 1);
    atomic_store(&ring_chunks(ring, 0)[0], chunk_word(CHUNK_CLAIMED, owner, 0));
    assert_int_equal(ring_recover(ring, owner), 1);
    assert_true(ring_slot_busy(ring, 0));
    struct ring_claim claim = claim_next(ring, 500);
    finish(ring, &claim);
    assert_int_equal(atomic_load(&ring->control->claim_cursor), 0);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_READY);
    ring_slot_free(ring, 0);
}

static void test_a_full_queue_is_said_and_comes_free(void **state) {
    struct ring *ring = *state;
    uint32_t entries = ring->header->queue_entries;
    struct batch_place place = fixture_place(1, BATCH, BATCH);
    struct ring_batch name = {.run = 1, .sequence = 1};
    for (uint32_t owner = 1; owner < entries; owner++)
        leave_spent_entry(ring, owner);
    dispatch(ring, 0, entries, 1); // its chunk is claimable by way of the first entry
    assert_false(ring_dispatch(ring, 1, &name, &place));
    finish_all(ring, 501);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_READY);
    assert_true(ring_dispatch(ring, 1, &name, &place));
    finish_all(ring, 501);
    assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_READY);
    assert_true(fixture_batch_is_whole(ring, 1));
}

// Nobody walks over them: the supervisor does.
static void test_a_queue_of_spent_entries_is_not_full(void **state) {
    struct ring *ring = *state;
    for (uint32_t owner = 1; owner <= ring->header->queue_entries; owner++)
        leave_spent_entry(ring, owner);
    for (uint32_t slot = 1; slot < 3; slot++)
        dispatch(ring, slot, slot, BATCH);
    assert_true(atomic_load(&ring->control->claim_cursor) > 0);
    finish_all(ring, 501);
    for (uint32_t slot = 1; slot < 3; slot++) {
        assert_int_equal(ring_slot_poll(ring, slot), RING_SLOT_READY);
        assert_true(fixture_batch_is_whole(ring, slot));
    }
}

// ---- Sleep ------------------------------------------------------------------------------------------------

static void test_the_supervisor_is_woken_once_by_the_last_chunk(void **state) {
    struct ring *ring = *state;
    dispatch(ring, 0, 0, 6);
    dispatch(ring, 1, 1, 1);
    ring_supervisor_arm(ring);
    struct ring_claim first = claim_next(ring, 1), second = claim_next(ring, 1), other = claim_next(ring, 1);
    assert_false(ring_chunk_done(ring, &second, 0));
    assert_true(ring_chunk_done(ring, &first, 0));
    assert_false(ring_chunk_done(ring, &other, 0)); // it is awake already
    ring_supervisor_arm(ring);
    assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_READY);
}

static void test_a_loader_does_not_sleep_over_work(void **state) {
    struct ring *ring = *state;
    uint64_t begun = monotonic_ns();
    dispatch(ring, 0, 0, BATCH);
    ring_wait_for_work(ring, 10000);
    assert_int_equal(atomic_load(&ring->control->loaders_asleep), 0); // so nobody makes a call to wake it
    assert_true(ring_announce_sleep(ring));                           // for work that comes after that look
    finish_all(ring, 1);
    atomic_fetch_add(&ring->control->urgent_wanted, 1);
    ring_wait_for_work(ring, 10000);
    assert_true(ring_announce_sleep(ring));
    assert_true(monotonic_ns() - begun < UINT64_C(5000000000));
    assert_nothing_to_do(ring);
    begun = monotonic_ns();
    ring_wait_for_work(ring, 30);
    assert_true(monotonic_ns() - begun >= 25000000);
}

// The futex word moves only after the flag was taken: a loader in between must not fall asleep on the new
// value.
static void test_waking_touches_the_futex_word_only_for_sleepers(void **state) {
    struct ring *ring = *state;
    ring_wake_loaders(ring, 4);
    assert_int_equal(atomic_load(&ring->control->work), 0);
    atomic_store(&ring->control->loaders_asleep, 1);
    ring_wake_loaders(ring, 0);
    assert_int_equal(atomic_load(&ring->control->loaders_asleep), 1);
    ring_wake_loaders(ring, 4);
    assert_int_equal(atomic_load(&ring->control->loaders_asleep), 0);
    assert_int_equal(atomic_load(&ring->control->work), 1);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, open_ring, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_claims_come_in_order_with_their_tail),
        CASE(test_a_batch_is_ready_when_all_is_done),
        CASE(test_a_batch_without_samples_is_ready_at_once),
        CASE(test_a_slot_is_used_again_for_fewer_samples),
        CASE(test_a_failed_chunk_fails_the_batch_with_its_reason),
        CASE(test_a_failed_slot_is_busy_until_the_last_chunk_has_ended),
        CASE(test_a_reason_that_was_never_finished_is_given_up),
        CASE(test_recovery_frees_what_the_dead_one_had_and_nothing_else),
        CASE(test_recovery_wakes_and_arms),
        CASE(test_recovered_chunks_come_before_the_queue),
        CASE(test_the_cursor_takes_a_recovered_chunk),
        CASE(test_the_next_batch_starts_without_recoveries),
        CASE(test_a_full_queue_is_said_and_comes_free),
        CASE(test_a_queue_of_spent_entries_is_not_full),
        CASE(test_the_supervisor_is_woken_once_by_the_last_chunk),
        CASE(test_a_loader_does_not_sleep_over_work),
        CASE(test_waking_touches_the_futex_word_only_for_sleepers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
