// Where consumers of a feed with device pools begin and continue: those that come first, late, back, or elsewhere.
#include "base/sizes.h"
#include "tests/unit/tap_fixture.h"

// The pool takes batches from the ring before anybody asks: that does not count as moving on.
static void who_comes_before_the_first_grant_begins_with_the_others(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *first = join(&gpu, 0, 1, &anywhere, 2);
    settle(&fixture);
    assert_true(tap_lane_of(first->lane)->consumer.cursor > 0);
    struct consumer *host = join(&fixture, 0, 1, &anywhere, 2), *second = join(&other, 0, 1, &anywhere, 2);
    check_everything(&fixture);
    assert_int_equal(host->cursor, 0);
    assert_int_equal(second->cursor, 0);
    for (int i = 0; i < 30; i++) {
        settle(&fixture);
        take(&fixture, host, 1), take(&gpu, first, 1), take(&other, second, 1);
        give_back_all(&fixture, host), give_back_all(&gpu, first), give_back_all(&other, second);
        check_everything(&fixture);
    }
    assert_int_equal(host->batches, 10);
    assert_int_equal(first->batches, 10);
    assert_int_equal(second->batches, 10);
}

static void who_comes_later_begins_where_the_others_are(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *host = join(&fixture, 0, 0, &anywhere, 1);
    for (int i = 0; i < 3; i++) {
        settle(&fixture);
        assert_int_equal(take(&fixture, host, 1), 1);
        give_back_all(&fixture, host);
    }
    struct consumer *late = join(&gpu, 0, 0, &anywhere, 1);
    assert_int_equal(late->cursor, 3);
    settle(&fixture);
    assert_int_equal(take(&gpu, late, 1), 1);
    // From now on nobody can begin earlier, only later.
    struct start_position gone = at(0, 4), here = at(0, 4 * 4), ahead = at(2, 0);
    int err = 0;
    assert_null(try_join(&other, 0, 0, &gone, 1, &err));
    assert_int_equal(err, -ESTALE);
    check_everything(&fixture);
    assert_int_equal(join(&other, 0, 0, &here, 1)->cursor, 4);
    assert_int_equal(join(&gpu, 0, 0, &ahead, 1)->cursor, 20);
    check_everything(&fixture);
}

static const struct partition pair = {.samples = 80, .batch_size = BATCH, .world_size = 2};

// Where the first consumer begins, not where the pool, which was left with batches, continues.
static void ranks_without_a_position_begin_with_the_first_one(void **state) {
    (void)state;
    open_with(8, 8, 2, &pair);
    struct consumer *zero = join(&gpu, 0, 0, &anywhere, 2);
    settle(&fixture);
    leave(&gpu, zero);
    struct start_position second = at(0, 8), third = at(0, 16);
    zero = join(&gpu, 0, 0, &second, 2);
    assert_int_equal(zero->cursor, 1);
    assert_int_equal(join(&fixture, 1, 0, &anywhere, 1)->cursor, 1);
    check_everything(&fixture);
    close_fixture(&fixture);
    open_with(8, 8, 2, &pair);
    join(&gpu, 0, 0, &second, 2);
    join(&other, 0, 0, &third, 2); // not the first
    assert_int_equal(join(&fixture, 1, 0, &anywhere, 1)->cursor, 1);
}

// All that was held is there for whoever comes back, from the first slot on.
static void what_was_held_is_not_read_again(void **state) {
    (void)state;
    open_with(4, 4, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 3);
    settle(&fixture);
    assert_int_equal(take(&fixture, consumer, 64), 3);
    assert_true(is_held(consumer, 0));
    uint64_t before = dispatched(&fixture);
    leave(&fixture, consumer);
    check_everything(&fixture);
    struct start_position start = at(0, 0);
    consumer = join(&fixture, 0, 0, &start, 3);
    assert_int_equal(take(&fixture, consumer, 64), 3);
    assert_int_equal(dispatched(&fixture), before);
}

// A lane that nobody is on stays while there is room for another one.
static void a_warm_lane_makes_way_only_where_it_must(void **state) {
    (void)state;
    open_with(8, 8, 2, &pair);
    leave(&fixture, join(&fixture, 0, 0, &anywhere, 1));
    settle(&fixture);
    assert_int_equal(fixture.delivery.lane_count, 1);
    join(&fixture, 1, 0, &anywhere, 1);
    assert_int_equal(fixture.delivery.lane_count, 2);
}

static void one_grant_is_enough_to_have_moved_on(void **state) {
    (void)state;
    open_with(8, 8, 1, &alone);
    struct start_position later = at(1, 8), earlier = at(0, 4);
    int err = 0;
    struct consumer *first = join(&fixture, 0, 2, &later, 2);
    settle(&fixture);
    assert_int_equal(take(&fixture, first, 1), 1);
    assert_null(try_join(&fixture, 0, 2, &earlier, 2, &err));
    assert_int_equal(err, -ESTALE);
}

// It keeps nothing for itself.
static void a_pool_takes_no_leases_from_those_in_the_ring(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    join(&gpu, 0, 0, &anywhere, 2);
    join(&other, 0, 0, &anywhere, 2);
    assert_int_equal(join(&fixture, 0, 0, &anywhere, 64)->prefetch, 7);
}

static void all_go_back_before_the_first_grant(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct start_position later = at(0, 24), earlier = at(0, 8);
    struct consumer *first = join(&gpu, 0, 1, &later, 1);
    settle(&fixture);
    struct consumer *second = join(&other, 0, 1, &earlier, 1);
    check_everything(&fixture);
    assert_int_equal(first->cursor, 6);
    assert_int_equal(second->cursor, 2);
    assert_int_equal(drain(&other, second) + drain(&gpu, first), 8 + 4);
}

// A pool keeps what was granted and came back when the last consumer left.
static void a_warm_pool_is_used_by_who_comes_back(void **state) {
    (void)state;
    open_with(8, 6, 1, &alone);
    struct consumer *consumer = join(&gpu, 0, 0, &anywhere, 4);
    settle(&fixture);
    assert_int_equal(take(&gpu, consumer, 3), 3);
    give_back(&gpu, consumer, 0);
    leave(&gpu, consumer);
    check_everything(&fixture);
    uint64_t read = dispatched(&fixture), copied = dispatched(&gpu);
    struct start_position token = at(0, 8);
    consumer = join(&gpu, 0, 1, &token, 4);
    check_everything(&fixture);
    settle(&fixture);
    assert_int_equal(consumer->cursor, 2);
    assert_int_equal(take(&gpu, consumer, 4), 4);
    assert_true(dispatched(&gpu) <= copied + 2); // one slot was given back before, one is passed over
    assert_true(dispatched(&fixture) <= read + 2);
    check_everything(&fixture);
    give_back_all(&gpu, consumer);
    assert_int_equal(drain(&gpu, consumer), 4);
}

static void one_place_after_the_other(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct fixture *const places[] = {&gpu, &fixture, &other, &gpu, &other, &fixture, &gpu};
    uint64_t taken = 0;
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        struct start_position token = at(taken / 10, taken % 10 * 4);
        struct consumer *consumer = join(places[i], 0, 0, &token, 3);
        check_everything(&fixture);
        assert_int_equal(consumer->cursor, taken);
        for (int k = 0; k < 4; k++) {
            settle(&fixture);
            taken += take(places[i], consumer, 1);
            if (k < 3)
                give_back_all(places[i], consumer);
        }
        leave(places[i], consumer);
        check_everything(&fixture);
    }
    assert_int_equal(taken, 28);
}

static void a_run_that_is_over_begins_again_for_one_who_wants_more(void **state) {
    (void)state;
    open_with(6, 4, 1, &alone);
    struct consumer *first = join(&gpu, 0, 1, &anywhere, 1);
    assert_int_equal(drain(&gpu, first), 10);
    assert_int_equal(gpu.delivery.free_count, 4);
    struct consumer *second = join(&gpu, 0, 3, &anywhere, 1);
    assert_int_equal(second->cursor, 10);
    check_everything(&fixture);
    assert_int_equal(drain(&gpu, second), 20);
    assert_true(consumer_at_end(first));
    leave(&gpu, second);
    check_everything(&fixture);
}

// The consumer that is left begins further ahead: what lies between is not taken, nor mistaken for what it waits for.
static void a_pool_goes_to_the_only_one_left(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct start_position later = at(3, 8);
    struct consumer *first = join(&gpu, 0, 0, &anywhere, 1), *second = join(&gpu, 0, 4, &later, 1);
    settle(&fixture);
    assert_int_equal(take(&gpu, first, 1), 1);
    leave(&gpu, first);
    check_everything(&fixture);
    assert_int_equal(drain(&gpu, second), 8);
}

static void one_comes_to_a_pool_whose_run_is_over_while_others_go_on(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *done = join(&gpu, 0, 1, &anywhere, 1), *host = join(&fixture, 0, 3, &anywhere, 1);
    for (int i = 0; i < 16; i++) {
        settle(&fixture);
        take(&gpu, done, 1), take(&fixture, host, 1);
        give_back_all(&gpu, done), give_back_all(&fixture, host);
    }
    assert_true(consumer_at_end(done));
    struct consumer *late = join(&gpu, 0, 2, &anywhere, 1);
    assert_int_equal(late->cursor, 16);
    assert_int_equal(drain(&gpu, late), 4);
    // Where the others were is gone.
    struct start_position gone = at(1, 8);
    int err = 0;
    assert_null(try_join(&gpu, 0, 2, &gone, 1, &err));
    assert_int_equal(err, -ESTALE);
    assert_int_equal(drain(&fixture, host), 14);
}

// The pool has the end of a run that a consumer there still wants, and the ring no longer has what comes after it.
static void who_comes_while_a_shorter_run_ends_has_to_wait(void **state) {
    (void)state;
    open_with(8, 12, 1, &alone);
    struct consumer *slow = join(&gpu, 0, 1, &anywhere, 1), *host = join(&fixture, 0, 0, &anywhere, 1);
    int err = 0;
    for (int i = 0; i < 16; i++) {
        settle(&fixture);
        assert_int_equal(take(&fixture, host, 1), 1);
        give_back_all(&fixture, host);
    }
    assert_null(try_join(&gpu, 0, 2, &anywhere, 1, &err));
    assert_int_equal(err, -ESTALE);
    check_everything(&fixture);
    assert_int_equal(join(&other, 0, 2, &anywhere, 1)->cursor, 16);
    assert_int_equal(drain(&gpu, slow), 10);
    assert_int_equal(join(&gpu, 0, 2, &anywhere, 1)->cursor, 16);
    check_everything(&fixture);
}

// It is at its end before it begins, further ahead than the others.
static void one_who_wants_nothing_holds_nobody_up(void **state) {
    (void)state;
    open_with(6, 3, 1, &alone);
    struct start_position far_on = at(3, 0);
    struct consumer *host = join(&fixture, 0, 2, &anywhere, 1), *idle = join(&gpu, 0, 3, &far_on, 1);
    assert_true(consumer_at_end(idle));
    // The consumer that the pool's lane was made for leaves, and the idle one stays.
    struct consumer *first = join(&other, 0, 0, &anywhere, 1), *second = join(&other, 0, 3, &far_on, 1);
    assert_true(consumer_at_end(second));
    settle(&fixture);
    leave(&other, first);
    check_everything(&fixture);
    assert_int_equal(drain(&fixture, host), 20);
    assert_int_equal(dispatched(&gpu), 0);
    assert_int_equal(dispatched(&other), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(who_comes_before_the_first_grant_begins_with_the_others),
        TEST(who_comes_later_begins_where_the_others_are),
        TEST(all_go_back_before_the_first_grant),
        TEST(ranks_without_a_position_begin_with_the_first_one),
        TEST(what_was_held_is_not_read_again),
        TEST(a_warm_lane_makes_way_only_where_it_must),
        TEST(one_grant_is_enough_to_have_moved_on),
        TEST(a_pool_takes_no_leases_from_those_in_the_ring),
        TEST(a_warm_pool_is_used_by_who_comes_back),
        TEST(one_place_after_the_other),
        TEST(a_run_that_is_over_begins_again_for_one_who_wants_more),
        TEST(a_pool_goes_to_the_only_one_left),
        TEST(one_comes_to_a_pool_whose_run_is_over_while_others_go_on),
        TEST(who_comes_while_a_shorter_run_ends_has_to_wait),
        TEST(one_who_wants_nothing_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
