// Consumers that return to a run after the loss of a daemon, when others have moved on: the lane goes back to their
// place, and nobody gets a batch twice or misses one.
#include "base/sizes.h"
#include "daemon/supervisor/delivery/lane.h"
#include "tests/unit/tap_fixture.h"

static struct start_position back_at(uint64_t epoch, uint64_t consumed) {
    struct start_position start = at(epoch, consumed);
    start.goes_back = true;
    return start;
}

// Takes and gives back until it has had that many.
static void advance(struct fixture *place, struct consumer *consumer, uint64_t batches) {
    while (consumer->batches < batches) {
        settle(&fixture);
        assert_int_equal(take(place, consumer, 1), 1);
        give_back_all(place, consumer);
    }
}

// In turns, since they read the same batches; take() checks that each comes in order.
static void drain_both(struct fixture *one_place, struct consumer *one, struct fixture *other_place,
                       struct consumer *two) {
    uint64_t moved;
    do {
        settle(&fixture);
        moved = take(one_place, one, 1) + take(other_place, two, 1);
        give_back_all(one_place, one), give_back_all(other_place, two);
        check_everything(&fixture);
    } while (moved);
    assert_true(consumer_at_end(one) && consumer_at_end(two));
}

static void the_others_have_moved_on_for_all_but_those_that_return(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *ahead = join(&fixture, 0, 2, &anywhere, 2);
    advance(&fixture, ahead, 12);
    struct start_position gone = at(0, 12), back = back_at(0, 12);
    int err = 0;
    assert_null(try_join(&fixture, 0, 2, &gone, 1, &err));
    assert_int_equal(err, -ESTALE);
    struct consumer *late = join(&fixture, 0, 2, &back, 1);
    assert_int_equal(late->cursor, 3);
    check_everything(&fixture);
    // Others do not get this right from it.
    assert_null(try_join(&fixture, 0, 2, &(struct start_position){.given = true}, 1, &err));
    assert_int_equal(err, -ESTALE);
    drain_both(&fixture, ahead, &fixture, late);
    assert_int_equal(ahead->batches, 20);
    assert_int_equal(late->batches, 17);
}

static void what_is_held_stays_as_it_is(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *ahead = join(&fixture, 0, 1, &anywhere, 3);
    advance(&fixture, ahead, 4);
    settle(&fixture);
    assert_int_equal(take(&fixture, ahead, 64), 3);
    struct start_position back = back_at(0, 4);
    struct consumer *late = join(&fixture, 0, 1, &back, 3);
    check_everything(&fixture);
    for (int i = 0; i < 5; i++) { // up to what the other one holds
        settle(&fixture);
        assert_int_equal(take(&fixture, ahead, 1), 0);
        assert_int_equal(take(&fixture, late, 1), 1);
        give_back_all(&fixture, late);
        check_everything(&fixture);
    }
    while (ahead->held_count) // checks that the batch is the one that was granted
        give_back(&fixture, ahead, 0);
    drain_both(&fixture, ahead, &fixture, late);
    assert_int_equal(ahead->batches, 10);
    assert_int_equal(late->batches, 9);
}

// Takes `count` batches, one by one. True if one of them was in its slot before, by `fills`, where it is now noted.
static bool take_noting_fills(struct consumer *consumer, uint64_t fills[4][16], int count) {
    bool again = false;
    while (count-- > 0) {
        settle(&fixture);
        assert_int_equal(take(&fixture, consumer, 1), 1);
        uint32_t slot = held_slot(&fixture, consumer, 0);
        const struct ring_slot *batch = ring_slot(&fixture.ring, slot);
        uint64_t *before = &fills[slot][batch->sequence];
        assert_int_equal(batch->run, 1);
        assert_int_equal(batch->fill, ring_dispatched(&fixture.ring, slot)->fill);
        assert_true(batch->fill > *before);
        again |= *before != 0;
        *before = batch->fill;
        give_back_all(&fixture, consumer);
    }
    return again;
}

// By that, a consumer that was detached and has not noticed can tell that its slot had another batch in between.
static void a_batch_that_comes_again_into_its_slot_has_another_fill(void **state) {
    (void)state;
    uint64_t fills[4][16] = {0};
    open_with(4, 4, 1, &alone);
    struct consumer *ahead = join(&fixture, 0, 4, &anywhere, 1);
    assert_false(take_noting_fills(ahead, fills, 12));
    struct start_position back = back_at(0, 0);
    struct consumer *late = join(&fixture, 0, 4, &back, 1);
    assert_true(take_noting_fills(late, fills, 12)); // or this test shows nothing
    check_everything(&fixture);
}

// Who has returned and then stops holds up the one ahead, although that does not wait for the very next batch.
static void one_that_has_returned_can_lag(void **state) {
    (void)state;
    open_with(4, 4, 1, &alone);
    struct consumer *ahead = join(&fixture, 0, 2, &anywhere, 1);
    advance(&fixture, ahead, 9);
    struct start_position back = back_at(0, 0);
    struct consumer *late = join(&fixture, 0, 2, &back, 2);
    settle(&fixture);
    assert_int_equal(take(&fixture, late, 64), 2);
    settle(&fixture);
    assert_false(delivery_holds_up(&fixture.delivery, late));
    ahead->waiting_since_ns = 1;
    assert_true(delivery_holds_up(&fixture.delivery, late));
    leave(&fixture, late);
    check_everything(&fixture);
    assert_int_equal(drain(&fixture, ahead), 11);
}

static void one_that_returns_and_dies_leaves_the_others_where_they_are(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *ahead = join(&fixture, 0, 2, &anywhere, 2);
    advance(&fixture, ahead, 11);
    struct start_position back = back_at(0, 8);
    struct consumer *late = join(&fixture, 0, 2, &back, 2);
    advance(&fixture, late, 3);
    settle(&fixture);
    leave(&fixture, late);
    check_everything(&fixture);
    assert_int_equal(drain(&fixture, ahead), 9);
}

static void one_returns_to_a_lane_whose_others_are_at_their_end(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *ahead = join(&fixture, 0, 1, &anywhere, 2);
    advance(&fixture, ahead, 9);
    settle(&fixture);
    assert_int_equal(take(&fixture, ahead, 64), 1);
    assert_true(consumer_at_end(ahead));
    struct start_position back = back_at(0, 20);
    struct consumer *late = join(&fixture, 0, 1, &back, 2);
    check_everything(&fixture);
    assert_int_equal(drain(&fixture, late), 5);
    give_back_all(&fixture, ahead);
    check_everything(&fixture);
}

// The returning consumer, and the ones ahead: in host memory, on the same GPU, on another one.
static void one_returns_wherever_the_others_are(void **state) {
    (void)state;
    struct fixture *const places[] = {&fixture, &gpu, &other};
    for (size_t i = 0; i < COUNT_OF(places) * COUNT_OF(places); i++) {
        struct fixture *ahead_at = places[i / 3], *late_at = places[i % 3];
        open_with(8, 6, 1, &alone);
        struct consumer *ahead = join(ahead_at, 0, 2, &anywhere, 2);
        advance(ahead_at, ahead, 14);
        settle(&fixture);
        assert_int_equal(take(ahead_at, ahead, 1), 1);
        struct start_position back = back_at(0, 8);
        struct consumer *late = join(late_at, 0, 2, &back, 2);
        check_everything(&fixture);
        assert_int_equal(late->cursor, 2);
        advance(late_at, late, 13);
        give_back_all(ahead_at, ahead);
        drain_both(ahead_at, ahead, late_at, late);
        assert_int_equal(ahead->batches, 20);
        assert_int_equal(late->batches, 18);
        close_fixture(&fixture);
    }
    open_with(8, 4, 1, &alone); // for the teardown
}

static void consumers_of_one_pool_are_far_apart(void **state) {
    (void)state;
    open_with(8, 6, 1, &alone);
    struct consumer *host = join(&fixture, 0, 3, &anywhere, 1), *first = join(&gpu, 0, 3, &anywhere, 2);
    for (int i = 1; i <= 15; i++)
        advance(&fixture, host, i), advance(&gpu, first, i);
    settle(&fixture); // some copies are under way when the pool goes back
    pump(&fixture);
    struct start_position back = back_at(0, 4), between = back_at(0, 36);
    struct consumer *late = join(&gpu, 0, 3, &back, 2);
    check_everything(&fixture);
    struct consumer *second = join(&other, 0, 3, &between, 2);
    check_everything(&fixture);
    assert_int_equal(late->cursor, 1);
    assert_int_equal(second->cursor, 9);
    for (bool moved = true; moved;) {
        settle(&fixture);
        moved =
            take(&fixture, host, 1) + take(&gpu, first, 1) + take(&gpu, late, 1) + take(&other, second, 1);
        give_back_all(&fixture, host), give_back_all(&gpu, first);
        give_back_all(&gpu, late), give_back_all(&other, second);
        check_everything(&fixture);
    }
    assert_int_equal(host->batches, 30);
    assert_int_equal(first->batches, 30);
    assert_int_equal(late->batches, 29);
    assert_int_equal(second->batches, 21);
}

// Leases depend on who comes first; but those that were given in one order are given again in any other.
static void leases_that_were_given_once_are_given_in_any_order(void **state) {
    (void)state;
    enum {
        SHARERS = 4
    };
    static const uint32_t wanted[SHARERS] = {30, 0, 5, 2};
    uint32_t given[SHARERS];
    open_with(24, 4, 1, &alone);
    fixture.delivery.shared = true;
    for (int i = 0; i < SHARERS; i++)
        given[i] = join(&fixture, 0, 0, &anywhere, wanted[i])->prefetch;
    close_fixture(&fixture);
    for (int order = 0; order < SHARERS * SHARERS * SHARERS; order++) {
        int sequence[SHARERS] = {order % 4, order / 4 % 4, order / 16 % 4, 0};
        sequence[3] = 6 - sequence[0] - sequence[1] - sequence[2];
        if (sequence[0] == sequence[1] || sequence[0] == sequence[2] || sequence[1] == sequence[2])
            continue;
        open_with(24, 4, 1, &alone);
        fixture.delivery.shared = true;
        for (int i = 0; i < SHARERS; i++)
            assert_int_equal(join(&fixture, 0, 0, &anywhere, given[sequence[i]])->prefetch,
                             given[sequence[i]]);
        close_fixture(&fixture);
    }
    open_with(8, 4, 1, &alone); // for the teardown
}

// Nothing after a consumer's last slot is taken for one: what follows its bits says how long it has waited.
static void who_leaves_the_largest_ring(void **state) {
    (void)state;
    open_fixture(&fixture, RING_MAX_SLOTS, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 2);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    for (int i = 0; i < 4; i++) {
        assert_true(claim_one(&fixture, 1));
        finish_claim(&fixture, 0);
    }
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(take(&fixture, consumer, 64), 2);
    consumer->waiting_since_ns = consumer->lagging_since_ns = UINT64_MAX;
    assert_int_equal(delivery_oldest_held(&fixture.delivery, consumer), 0);
    assert_int_equal(delivery_release(&fixture.delivery, consumer, RING_MAX_SLOTS), -EINVAL);
    leave(&fixture, consumer);
    assert_int_equal(fixture.delivery.consumer_count, 0);
}

// More slots than there are bits in a word.
static void each_slot_of_a_large_ring_is_held_by_itself(void **state) {
    (void)state;
    open_fixture(&fixture, 200, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 130);
    settle(&fixture);
    while (take(&fixture, consumer, 64))
        continue;
    assert_int_equal(consumer->held_count, 130);
    uint32_t first = fixture.delivery.slots[0].sequence == 0 ? 0 : held_slot(&fixture, consumer, 0);
    assert_int_equal(delivery_release(&fixture.delivery, consumer, first), 0);
    assert_int_equal(delivery_oldest_held(&fixture.delivery, consumer), 1); // wherever its slot is
    check_everything(&fixture);
    for (uint32_t i = 1; i < 130; i++) {
        uint32_t slot = held_slot(&fixture, consumer, i % 3 % consumer->held_count);
        consumer->lagging_since_ns = 1;
        assert_int_equal(delivery_release(&fixture.delivery, consumer, slot), 0);
        assert_false(is_held(consumer, slot));
        assert_int_equal(consumer->lagging_since_ns, 0); // who releases holds up nobody
        assert_int_equal(consumer->held_count, 129 - i);
        check_everything(&fixture);
    }
    delivery_leave(&fixture.delivery, consumer);
    delivery_leave(&fixture.delivery, consumer); // it is on no lane any more
    assert_int_equal(fixture.delivery.consumer_count, 0);
}

// So that the supervisor does not write to new pages for too long at a time.
static void a_pump_gives_out_slots_of_eight_mebibytes_of_words(void **state) {
    (void)state;
    static const struct partition large = {
        .samples = 1ull << 30, .batch_size = CHUNK_MAX_SAMPLES, .world_size = 1};
    fixture = (struct fixture){0};
    fixture_ring(&fixture.ring, &(struct ring_shape){6, CHUNK_MAX_SAMPLES, CHUNK_MAX_SAMPLES, 1});
    loaders_fill_init(&fixture.fill, NULL);
    assert_int_equal(delivery_open(&fixture.delivery, &fixture.ring, &large, 1, &fixture.fill.filler, 6), 0);
    join(&fixture, 0, 0, &anywhere, 1);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(fixture.delivery.free_count, 2); // 2 MiB and a few bytes each, and one in any case
    assert_true(fixture.delivery.behind);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(fixture.delivery.free_count, 0);
    assert_false(fixture.delivery.behind);
}

// A place is moved ahead, beyond its end if need be: then it is due nothing.
static void who_skips_beyond_its_end_is_at_its_end(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *one = join(&fixture, 0, 1, &anywhere, 1), *stays = join(&fixture, 0, 4, &anywhere, 1);
    settle(&fixture);
    lane_skip(&fixture.delivery, one, 3);
    check_everything(&fixture);
    assert_int_equal(one->end, 10);
    lane_skip(&fixture.delivery, one, 20);
    assert_int_equal(one->cursor, 20);
    assert_int_equal(one->end, 20);
    check_everything(&fixture);
    assert_int_equal(stays->cursor, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_others_have_moved_on_for_all_but_those_that_return),
        TEST(what_is_held_stays_as_it_is),
        TEST(a_batch_that_comes_again_into_its_slot_has_another_fill),
        TEST(one_that_has_returned_can_lag),
        TEST(one_that_returns_and_dies_leaves_the_others_where_they_are),
        TEST(one_returns_to_a_lane_whose_others_are_at_their_end),
        TEST(one_returns_wherever_the_others_are),
        TEST(consumers_of_one_pool_are_far_apart),
        TEST(leases_that_were_given_once_are_given_in_any_order),
        TEST(who_leaves_the_largest_ring),
        TEST(each_slot_of_a_large_ring_is_held_by_itself),
        TEST(a_pump_gives_out_slots_of_eight_mebibytes_of_words),
        TEST(who_skips_beyond_its_end_is_at_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
