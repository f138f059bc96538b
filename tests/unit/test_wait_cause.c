// What a consumer waits for, in host memory and in a pool.
#include "daemon/supervisor/delivery/wait_cause.h"
#include "order/partition.h"
#include "tests/unit/tap_fixture.h"

static enum wait_cause cause_of(const struct fixture *at, const struct consumer *consumer) {
    return wait_cause_of(&at->delivery, consumer);
}

// Takes and gives back what comes, until nothing more does.
static void run_dry(struct fixture *at, struct consumer *consumer) {
    do {
        settle(&fixture);
        give_back_all(at, consumer);
        settle(&fixture);
    } while (take(at, consumer, 64));
    give_back_all(at, consumer);
    settle(&fixture);
}

static void loaders_are_slow(void **state) {
    (void)state;
    open_with(6, 5, 1, &alone);
    struct consumer *host = join(&fixture, 0, 3, &anywhere, 1), *consumer = join(&gpu, 0, 3, &anywhere, 1);
    pump(&fixture);
    assert_int_equal(cause_of(&fixture, host), WAIT_LOADERS);
    assert_int_equal(cause_of(&gpu, consumer), WAIT_LOADERS);
}

static void copies_are_slow(void **state) {
    (void)state;
    open_with(6, 5, 1, &alone);
    struct consumer *consumer = join(&gpu, 0, 3, &anywhere, 1);
    read_all();
    assert_int_equal(cause_of(&gpu, consumer), WAIT_COPY);
}

static void a_pool_is_full(void **state) {
    (void)state;
    open_with(6, 5, 1, &alone);
    struct consumer *consumer = join(&gpu, 0, 3, &anywhere, 4);
    consumer->prefetch = 5; // more than it would be given
    settle(&fixture);
    assert_int_equal(take(&gpu, consumer, 64), 5);
    settle(&fixture);
    assert_int_equal(cause_of(&gpu, consumer), WAIT_POOL);
}

static void another_consumer_is_slow(void **state) {
    (void)state;
    open_with(6, 5, 1, &alone);
    struct consumer *slow = join(&fixture, 0, 3, &anywhere, 1), *fast = join(&fixture, 0, 3, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&fixture, slow, 1), 1);
    run_dry(&fixture, fast);
    assert_int_equal(cause_of(&fixture, fast), WAIT_RANK);
    give_back_all(&fixture, slow);
    pump(&fixture);
    assert_int_equal(cause_of(&fixture, fast), WAIT_LOADERS);
}

static void another_one_in_the_pool_is_slow(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *slow = join(&gpu, 0, 3, &anywhere, 1), *fast = join(&gpu, 0, 3, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&gpu, slow, 1), 1);
    run_dry(&gpu, fast);
    assert_int_equal(cause_of(&gpu, fast), WAIT_RANK);
}

static void one_in_host_memory_holds_up_a_pool(void **state) {
    (void)state;
    open_with(6, 5, 1, &alone);
    struct consumer *slow = join(&fixture, 0, 3, &anywhere, 1), *fast = join(&gpu, 0, 3, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&fixture, slow, 1), 1);
    run_dry(&gpu, fast);
    assert_int_equal(cause_of(&gpu, fast), WAIT_RANK);
}

// The slow one holds one slot of the two that there are. Of six, it would hold nobody up yet.
static void slots_are_being_allocated(void **state) {
    (void)state;
    open_partly(&fixture, 6, 2, 1, &alone);
    struct consumer *slow = join(&fixture, 0, 3, &anywhere, 1), *fast = join(&fixture, 0, 3, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&fixture, slow, 1), 1);
    run_dry(&fixture, fast);
    assert_int_equal(fixture.delivery.free_count, 0);
    assert_int_equal(cause_of(&fixture, fast), WAIT_LOADERS);
    delivery_add_slots(&fixture.delivery, 4);
    run_dry(&fixture, fast);
    check_everything(&fixture);
    assert_int_equal(fixture.delivery.free_count, 0);
    assert_int_equal(cause_of(&fixture, fast), WAIT_RANK);
}

// Slots that come are for the other lane.
static void a_lane_has_its_share_already(void **state) {
    (void)state;
    open_partly(&fixture, 4, 2, 2, &alone);
    struct consumer *slow = join(&fixture, 0, 3, &anywhere, 1), *fast = join(&fixture, 0, 3, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&fixture, slow, 1), 1);
    run_dry(&fixture, fast);
    assert_int_equal(cause_of(&fixture, fast), WAIT_RANK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(loaders_are_slow),
        TEST(copies_are_slow),
        TEST(a_pool_is_full),
        TEST(another_consumer_is_slow),
        TEST(another_one_in_the_pool_is_slow),
        TEST(one_in_host_memory_holds_up_a_pool),
        TEST(slots_are_being_allocated),
        TEST(a_lane_has_its_share_already),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
