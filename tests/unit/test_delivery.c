// The bookkeeping of delivery, case by case; test_delivery_model.c covers the cases that nobody thought of.
#include "base/sizes.h"
#include "order/partition.h"
#include "shm/ring_loader.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/delivery_fixture.h"

// Ten batches per epoch for one rank, five for each of two.
static const struct partition alone = {.samples = 40, .batch_size = BATCH, .world_size = 1};
static const struct partition pair = {.samples = 40, .batch_size = BATCH, .world_size = 2};

static struct fixture fixture;

static int close_after(void **state) {
    (void)state;
    close_fixture(&fixture);
    return 0;
}

static void open_with(uint32_t slots, uint32_t lanes, const struct partition *partition) {
    open_fixture(&fixture, slots, lanes, partition);
}

static struct start_position at(uint64_t epoch, uint64_t consumed) {
    return (struct start_position){.given = true, .epoch = epoch, .consumed = consumed};
}

static void give_back_all(struct consumer *consumer) {
    while (consumer->held_count)
        give_back(&fixture, consumer, 0);
}

static uint64_t drain(struct consumer *consumer) {
    uint64_t taken = 0;
    for (uint32_t count = 1; count; taken += count) {
        settle(&fixture);
        count = take(&fixture, consumer, 64);
        give_back_all(consumer);
        check_everything(&fixture);
    }
    return taken;
}

static void test_a_run_from_start_to_end(void **state) {
    (void)state;
    open_with(6, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 3, &anywhere, 0);
    assert_int_equal(consumer->cursor, 0);
    assert_int_equal(consumer->end, 30);
    assert_int_equal(drain(consumer), 30);
    assert_true(consumer_at_end(consumer));
    assert_int_equal(consumer->batches, 30);
    assert_int_equal(fixture.delivery.completed, 30);
    assert_int_equal(fixture.delivery.free_count, 6);
}

static void test_out_of_order_completion_is_delivered_in_order(void **state) {
    (void)state;
    open_with(6, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 5);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    while (claim_one(&fixture, 1))
        continue;
    for (uint32_t i = fixture.claim_count; i-- > 1;) {
        finish_claim(&fixture, i);
        assert_int_equal(delivery_pump(&fixture.delivery), 0);
        assert_int_equal(take(&fixture, consumer, 64), 0);
    }
    finish_claim(&fixture, 0);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(take(&fixture, consumer, 64), 5);
}

static void test_two_share_each_slot_until_both_released_it(void **state) {
    (void)state;
    open_with(6, 1, &alone);
    struct consumer *first = join(&fixture, 0, 1, &anywhere, 2), *second = join(&fixture, 0, 1, &anywhere, 2);
    settle(&fixture);
    assert_int_equal(take(&fixture, first, 1), 1);
    assert_int_equal(take(&fixture, second, 1), 1);
    uint32_t slot = held_slot(&fixture, first, 0);
    assert_int_equal(held_slot(&fixture, second, 0), slot);
    give_back(&fixture, first, 0);
    assert_int_equal(fixture.delivery.slots[slot].phase, SLOT_READY);
    assert_int_equal(delivery_release(&fixture.delivery, first, slot), -EINVAL);
    assert_int_equal(delivery_release(&fixture.delivery, first, 6), -EINVAL);
    assert_int_equal(delivery_release(&fixture.delivery, first, UINT32_MAX), -EINVAL);
    give_back(&fixture, second, 0);
    assert_int_equal(fixture.delivery.slots[slot].phase, SLOT_FREE);
    assert_int_equal(drain(first), 6); // the ring is full of what the second one has not taken
    assert_int_equal(drain(second), 9);
    assert_int_equal(drain(first), 3);
    assert_true(consumer_at_end(first) && consumer_at_end(second));
}

static void test_a_late_joiner_begins_where_the_lane_stands(void **state) {
    (void)state;
    open_with(6, 1, &alone);
    struct consumer *first = join(&fixture, 0, 1, &anywhere, 3);
    settle(&fixture);
    assert_int_equal(take(&fixture, first, 2), 2);
    struct consumer *late = join(&fixture, 0, 2, &anywhere, 1);
    assert_int_equal(late->cursor, 2);
    check_everything(&fixture);
    struct start_position gone = at(0, 4), ahead = at(0, 16);
    int err = 0;
    assert_null(try_join(&fixture, 0, 0, &gone, 1, &err));
    assert_int_equal(err, -ESTALE);
    assert_int_equal(join(&fixture, 0, 0, &ahead, 1)->cursor, 4);
    check_everything(&fixture);
}

// ---- Positions --------------------------------------------------------------------------------------------

static void test_a_warm_window_is_used_by_who_comes_back(void **state) {
    (void)state;
    open_with(8, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 4);
    settle(&fixture);
    assert_int_equal(take(&fixture, consumer, 4), 4);
    give_back(&fixture, consumer, 0); // batch 0
    leave(&fixture, consumer);
    check_everything(&fixture);
    settle(&fixture);
    // 1..3 came back from the consumer; its token says 2.
    struct start_position token = at(0, 8), before = at(0, 0);
    uint64_t dispatched = atomic_load(&fixture.ring.control->queue_head);
    consumer = join(&fixture, 0, 0, &token, 4);
    assert_int_equal(take(&fixture, consumer, 64), 4);
    assert_int_equal(atomic_load(&fixture.ring.control->queue_head), dispatched);
    check_everything(&fixture);
    leave(&fixture, consumer);
    consumer = join(&fixture, 0, 1, &before, 4);
    assert_int_equal(drain(consumer), 10);
}

// The consumer that is left came with a later position: nobody wants what lies between.
static void test_the_lane_goes_to_the_only_one_left(void **state) {
    (void)state;
    open_with(6, 1, &alone);
    struct consumer *first = join(&fixture, 0, 0, &anywhere, 1);
    struct start_position later = at(3, 0);
    struct consumer *second = join(&fixture, 0, 4, &later, 1);
    settle(&fixture);
    assert_int_equal(take(&fixture, first, 1), 1);
    assert_int_equal(take(&fixture, second, 1), 0);
    leave(&fixture, first);
    check_everything(&fixture);
    assert_int_equal(drain(second), 10);
}

static void test_the_lane_goes_on_from_those_at_their_end(void **state) {
    (void)state;
    open_with(6, 1, &alone);
    struct consumer *first = join(&fixture, 0, 1, &anywhere, 1);
    assert_int_equal(drain(first), 10);
    struct start_position later = at(3, 0);
    assert_int_equal(drain(join(&fixture, 0, 4, &later, 1)), 10);
}

// The first rank says where the run begins; the others may come without a position, and must not continue where an
// earlier job stopped.
static void test_ranks_without_a_position_begin_with_the_run(void **state) {
    (void)state;
    open_with(8, 2, &pair);
    struct consumer *zero = join(&fixture, 0, 2, &anywhere, 2), *one = join(&fixture, 1, 2, &anywhere, 2);
    assert_int_equal(drain(zero), 10);
    assert_int_equal(drain(one), 10);
    leave(&fixture, zero);
    leave(&fixture, one);
    struct start_position again = at(0, 8);
    zero = join(&fixture, 0, 2, &again, 2);
    one = join(&fixture, 1, 2, &anywhere, 2);
    assert_int_equal(zero->cursor, 1);
    assert_int_equal(one->cursor, 1);
    assert_int_equal(drain(one), 9);
}

static void test_a_run_that_nobody_has_begun_can_be_rewound(void **state) {
    (void)state;
    open_with(6, 1, &alone);
    struct start_position later = at(1, 8), earlier = at(0, 4);
    struct consumer *first = join(&fixture, 0, 2, &later, 2);
    settle(&fixture);
    struct consumer *second = join(&fixture, 0, 2, &earlier, 2);
    check_everything(&fixture);
    assert_int_equal(drain(second), 17); // until the ring is full of what the first one must take
    assert_int_equal(first->cursor, 12);
    assert_int_equal(drain(first), 8);
}

static void test_another_run_in_the_same_ring(void **state) {
    (void)state;
    open_with(6, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 2);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    claim_one(&fixture, 1);
    assert_int_equal(ring_slot(&fixture.ring, 0)->sequence, 0);
    assert_int_equal(ring_slot(&fixture.ring, 0)->run, 1);
    leave(&fixture, consumer);
    delivery_restart(
        &fixture.delivery,
        &(struct partition){
            .samples = 40, .batch_size = BATCH, .world_size = 1, .start_epoch = 5, .start_sample = 8});
    check_everything(&fixture);
    assert_int_equal(fixture.delivery.lane_count, 0);
    struct start_position start = at(5, 8);
    consumer = join(&fixture, 0, 6, &start, 2);
    settle(&fixture);
    // Batch 0 again, and another one.
    uint32_t slot = LIST_FIRST(&fixture.delivery.lanes)->window[0];
    assert_int_equal(ring_slot(&fixture.ring, slot)->sequence, 0);
    assert_int_equal(ring_slot(&fixture.ring, slot)->run, 2);
    assert_int_equal(drain(consumer), 8);
}

static void test_ends(void **state) {
    (void)state;
    open_with(6, 1,
              &(struct partition){.samples = 40, .batch_size = BATCH, .world_size = 1, .start_epoch = 2});
    assert_true(consumer_at_end(join(&fixture, 0, 1, &anywhere, 1)));
    assert_true(consumer_at_end(join(&fixture, 0, 2, &anywhere, 1)));
    assert_int_equal(join(&fixture, 0, 3, &anywhere, 1)->end, 10);
    assert_int_equal(join(&fixture, 0, 0, &anywhere, 1)->end, UINT64_MAX);
    // A run of more epochs than can be counted is not empty.
    assert_int_equal(join(&fixture, 0, UINT64_MAX, &anywhere, 1)->end, UINT64_MAX);
}

// ---- Lanes ------------------------------------------------------------------------------------------------

static void test_a_refused_join_leaves_no_lane(void **state) {
    (void)state;
    open_with(8, 1, &pair);
    struct start_position odd = at(0, 3);
    int err = 0;
    assert_null(try_join(&fixture, 0, 0, &odd, 1, &err));
    assert_int_equal(err, -ESTALE);
    assert_int_equal(fixture.delivery.lane_count, 0);
    join(&fixture, 1, 0, &anywhere, 1);
    assert_null(try_join(&fixture, 0, 0, &anywhere, 1, &err));
    assert_int_equal(err, -ENOSPC);
}

static void test_a_deserted_lane_makes_room_for_another_rank(void **state) {
    (void)state;
    open_with(8, 1, &pair);
    struct consumer *one = join(&fixture, 1, 0, &anywhere, 2);
    settle(&fixture);
    assert_int_equal(take(&fixture, one, 2), 2);
    leave(&fixture, one);
    settle(&fixture);
    assert_int_equal(drain(join(&fixture, 0, 1, &anywhere, 2)), 5);
}

static void test_lanes_share_the_ring_out(void **state) {
    (void)state;
    open_with(9, 2, &pair);
    struct consumer *zero = join(&fixture, 0, 0, &anywhere, 64), *one = join(&fixture, 1, 0, &anywhere, 64);
    for (int i = 0; i < 5; i++) {
        settle(&fixture);
        take(&fixture, zero, 64);
    }
    assert_int_equal(LIST_FIRST(&one->lane->consumers)->lane->slots_used, 4);
    assert_int_equal(zero->lane->slots_used, 4);
    assert_int_equal(take(&fixture, one, 64), one->prefetch);
    check_everything(&fixture);
}

static void test_prefetch_leaves_two_slots_to_move_in(void **state) {
    (void)state;
    static const uint32_t wanted[] = {3, 0, 64, 64, 1, 64};
    open_with(10, 1, &alone);
    uint32_t kept = 0;
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        const struct consumer *consumer = join(&fixture, 0, 0, &anywhere, wanted[i]);
        assert_true(consumer->prefetch >= 1 && (!wanted[i] || consumer->prefetch <= wanted[i]));
        kept += consumer->prefetch - 1;
    }
    assert_int_equal(kept, 8);
}

static void test_a_feed_chooses_half_of_the_ring_for_one_and_a_quarter_for_many(void **state) {
    (void)state;
    open_with(16, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 0);
    assert_int_equal(consumer->prefetch, 8);
    leave(&fixture, consumer);
    fixture.delivery.shared = true;
    assert_int_equal(join(&fixture, 0, 0, &anywhere, 0)->prefetch, 4);
    assert_int_equal(join(&fixture, 0, 0, &anywhere, 0)->prefetch, 4);
}

static void test_a_lane_is_blocked_by_who_keeps_everything(void **state) {
    (void)state;
    open_with(4, 1, &alone);
    struct consumer *keeps = join(&fixture, 0, 0, &anywhere, 3), *waits = join(&fixture, 0, 0, &anywhere, 1);
    waits->waiting_since_ns = 1;
    uint32_t taken;
    do {
        assert_false(delivery_holds_up(&fixture.delivery, waits));
        settle(&fixture);
        take(&fixture, keeps, 64);
        taken = take(&fixture, waits, 64);
        give_back_all(waits);
    } while (taken && waits->cursor < 4);
    assert_int_equal(keeps->held_count, 3);
    assert_true(delivery_holds_up(&fixture.delivery, waits));
    waits->waiting_since_ns = 0;
    assert_false(delivery_holds_up(&fixture.delivery, waits));
    waits->waiting_since_ns = 1;
    give_back(&fixture, keeps, 0);
    settle(&fixture);
    assert_false(delivery_holds_up(&fixture.delivery, waits));
}

// ---- Odd batches ------------------------------------------------------------------------------------------

// A tail shorter than the world: its last ranks get a batch without samples, which no loader will report.
static void test_batches_without_samples(void **state) {
    (void)state;
    open_with(6, 1, &(struct partition){.samples = 9, .batch_size = BATCH, .world_size = 2});
    struct consumer *consumer = join(&fixture, 1, 3, &anywhere, 5);
    assert_int_equal(drain(consumer), 6);
    leave(&fixture, consumer);
    struct start_position tail = at(4, 8);
    consumer = join(&fixture, 1, 0, &tail, 2);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(take(&fixture, consumer, 1), 1); // at once
}

static void test_a_failed_batch_fails_the_feed(void **state) {
    (void)state;
    open_with(6, 1, &alone);
    join(&fixture, 0, 0, &anywhere, 2);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_true(claim_one(&fixture, 1));
    (void)!ring_chunk_failed(&fixture.ring, &fixture.claims[0], -EIO, 0, 0, 0);
    assert_int_equal(delivery_pump(&fixture.delivery), -EIO);
}

// One chunk of a batch that nobody wants any more fails while a loader is still writing the other.
static void test_an_abandoned_slot_is_not_used_while_loaders_write(void **state) {
    (void)state;
    open_with(2, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 1);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    while (claim_one(&fixture, 1))
        continue;
    leave(&fixture, consumer);
    struct start_position elsewhere = at(2, 0);
    consumer = join(&fixture, 0, 0, &elsewhere, 1);
    assert_int_equal(fixture.delivery.abandoned, 2);
    struct ring_claim failed = drop_claim(&fixture, 0);
    (void)!ring_chunk_failed(&fixture.ring, &failed, -EIO, 0, 0, 0);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(fixture.delivery.abandoned, 2);
    check_everything(&fixture);
    struct ring_error left;
    settle(&fixture);
    assert_false(ring_take_failure(&fixture.ring, &left));
    assert_int_equal(take(&fixture, consumer, 1), 1);
    check_everything(&fixture);
}

int main(void) {
#define CASE(test) cmocka_unit_test_teardown(test, close_after)
    const struct CMUnitTest tests[] = {
        CASE(test_a_run_from_start_to_end),
        CASE(test_out_of_order_completion_is_delivered_in_order),
        CASE(test_two_share_each_slot_until_both_released_it),
        CASE(test_a_late_joiner_begins_where_the_lane_stands),
        CASE(test_a_warm_window_is_used_by_who_comes_back),
        CASE(test_the_lane_goes_to_the_only_one_left),
        CASE(test_the_lane_goes_on_from_those_at_their_end),
        CASE(test_ranks_without_a_position_begin_with_the_run),
        CASE(test_a_run_that_nobody_has_begun_can_be_rewound),
        CASE(test_another_run_in_the_same_ring),
        CASE(test_ends),
        CASE(test_a_refused_join_leaves_no_lane),
        CASE(test_a_deserted_lane_makes_room_for_another_rank),
        CASE(test_lanes_share_the_ring_out),
        CASE(test_prefetch_leaves_two_slots_to_move_in),
        CASE(test_a_feed_chooses_half_of_the_ring_for_one_and_a_quarter_for_many),
        CASE(test_a_lane_is_blocked_by_who_keeps_everything),
        CASE(test_batches_without_samples),
        CASE(test_a_failed_batch_fails_the_feed),
        CASE(test_an_abandoned_slot_is_not_used_while_loaders_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
