// How long the supervisor may nap: by the pace of a feed, the batches that are left, and what its consumers may hold.
#include "base/time.h"
#include "daemon/supervisor/delivery/pace.h"
#include "tests/unit/delivery_fixture.h"

static const struct partition alone = {.samples = 40, .batch_size = BATCH, .world_size = 1};
static const struct start_position anywhere_at_all = {0};

static struct fixture fixture;

static void test_the_pace_is_measured_over_two_milliseconds(void **state) {
    (void)state;
    struct pace pace = {0};
    uint64_t begin = NS_PER_S;
    pace_note(&pace, 5, begin);
    assert_int_equal(pace.interval_ns, 0); // nothing to compare with
    pace_note(&pace, 100, begin + 2 * NS_PER_MS - 1);
    assert_int_equal(pace.interval_ns, 0); // too soon
    assert_int_equal(pace.batches, 5);
    pace_note(&pace, 25, begin + 2 * NS_PER_MS);
    assert_int_equal(pace.interval_ns, NS_PER_MS / 10);
    assert_int_equal(pace.batches, 25);
    pace_note(&pace, 25, begin + 4 * NS_PER_MS); // it stands still
    assert_int_equal(pace.interval_ns, 0);
}

static void test_nobody_minds_a_nap_without_consumers(void **state) {
    (void)state;
    struct pace pace = {.interval_ns = 1};
    open_fixture(&fixture, 8, 1, &alone);
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), NAP_ANY);
    close_fixture(&fixture);
}

static void test_a_nap_ends_before_half_of_the_credits_are_used(void **state) {
    (void)state;
    struct pace pace = {.interval_ns = 1000};
    open_fixture(&fixture, 8, 1, &alone);
    const struct consumer *consumer = join(&fixture, 0, 1, &anywhere_at_all, 4);
    assert_int_equal(consumer->prefetch, 4);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), 2000);
    pace.interval_ns = PACE_NAP_MOST_NS;
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), PACE_NAP_MOST_NS);
    pace.interval_ns++; // slower than the longest nap
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), NAP_ANY);
    pace.interval_ns = 0; // not known
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), NAP_ANY);
    close_fixture(&fixture);
}

// What is complete and not granted, or nothing left for loaders to begin: then the supervisor is needed at once.
static void test_no_nap_while_something_is_to_be_done(void **state) {
    (void)state;
    struct pace unknown = {0}, known = {.interval_ns = 1000};
    open_fixture(&fixture, 8, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 1, &anywhere_at_all, 4);
    settle(&fixture);
    assert_int_equal(pace_nap_ns(&unknown, &fixture.delivery), 0);
    assert_int_equal(pace_nap_ns(&known, &fixture.delivery), 0);
    assert_int_equal(take(&fixture, consumer, 64), 4);
    while (consumer->held_count)
        give_back(&fixture, consumer, 0);
    assert_int_equal(pace_nap_ns(&known, &fixture.delivery), 0);
    while (take(&fixture, consumer, 64))
        while (consumer->held_count)
            give_back(&fixture, consumer, 0);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_true(pace_nap_ns(&known, &fixture.delivery) > 0);
    for (int i = 0; i < 2; i++) {
        assert_true(claim_one(&fixture, 1));
        finish_claim(&fixture, 0);
    }
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(pace_nap_ns(&known, &fixture.delivery), 0); // the first of several is complete
    close_fixture(&fixture);
}

// Two batches are all that is left, however many the consumer may hold.
static void test_a_nap_ends_when_loaders_run_out_of_work(void **state) {
    (void)state;
    struct pace pace = {.interval_ns = 1000};
    open_fixture(&fixture, 2, 1, &alone);
    join(&fixture, 0, 1, &anywhere_at_all, 64)->prefetch = 64;
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), 2000);
    assert_true(claim_one(&fixture, 1));
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), 1000);
    close_fixture(&fixture);
}

// The one that may hold the fewest, of all ranks.
static void test_the_least_patient_consumer_decides(void **state) {
    (void)state;
    static const struct partition pair = {.samples = 400, .batch_size = BATCH, .world_size = 2};
    struct pace pace = {.interval_ns = 1000};
    open_fixture(&fixture, 32, 2, &pair);
    join(&fixture, 0, 0, &anywhere_at_all, 8);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), 4000);
    join(&fixture, 1, 0, &anywhere_at_all, 2);
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), 1000);
    join(&fixture, 0, 0, &anywhere_at_all, 4);
    assert_int_equal(pace_nap_ns(&pace, &fixture.delivery), 1000);
    close_fixture(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_pace_is_measured_over_two_milliseconds),
        cmocka_unit_test(test_nobody_minds_a_nap_without_consumers),
        cmocka_unit_test(test_a_nap_ends_before_half_of_the_credits_are_used),
        cmocka_unit_test(test_no_nap_while_something_is_to_be_done),
        cmocka_unit_test(test_a_nap_ends_when_loaders_run_out_of_work),
        cmocka_unit_test(test_the_least_patient_consumer_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
