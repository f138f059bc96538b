// When the supervisor may nap, and for how long.
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/moderation.h"
#include "order/partition.h"
#include "tests/unit/delivery_fixture.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

static const struct partition endless = {.samples = 1u << 20, .batch_size = BATCH, .world_size = 1};
static const struct pace fast = {.interval_ns = 40 * US};

static const struct pace slow = {.interval_ns = 501 * US}, unknown = {0};

static struct fixture fixture;

static int close_after(void **state) {
    (void)state;
    close_fixture(&fixture);
    return 0;
}

static uint64_t nap(const struct pace *pace) {
    return pace_nap_ns(pace, &fixture.delivery);
}

static void finish_batches(uint32_t count) {
    // Two chunks per batch, claimed in order.
    for (uint32_t i = 0; i < 2 * count; i++) {
        assert_true(claim_one(&fixture, 1));
        finish_claim(&fixture, 0);
    }
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
}

static void test_pace_is_measured_over_a_while(void **state) {
    (void)state;
    struct pace pace = {0};
    pace_note(&pace, 5, 1000 * MS);
    assert_int_equal(pace.interval_ns, 0); // the first look only starts the clock
    pace_note(&pace, 25, 1001 * MS);
    assert_int_equal(pace.interval_ns, 0);
    pace_note(&pace, 45, 1004 * MS);
    assert_int_equal(pace.interval_ns, 100 * US);
    pace_note(&pace, 46, 1005 * MS);
    assert_int_equal(pace.interval_ns, 100 * US);
    pace_note(&pace, 47, 1008 * MS);
    assert_int_equal(pace.interval_ns, 2 * MS);
    pace_note(&pace, 47, 2008 * MS);
    assert_int_equal(pace.interval_ns, 0);
}

static void test_half_of_what_may_be_held_is_slept_through(void **state) {
    (void)state;
    open_fixture(&fixture, 16, 1, &endless);
    join(&fixture, 0, 0, &anywhere, 0);
    assert_int_equal(LIST_FIRST(&LIST_FIRST(&fixture.delivery.lanes)->consumers)->prefetch, 8);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(nap(&fast), 4 * fast.interval_ns);
    join(&fixture, 0, 0, &anywhere, 5); // the one with fewest credits counts
    assert_int_equal(nap(&fast), 2 * fast.interval_ns);
    const struct pace slower = {.interval_ns = 250 * US};
    assert_int_equal(nap(&slower), 500 * US);
}

static void test_it_never_naps_long_nor_for_slow_feeds(void **state) {
    (void)state;
    open_fixture(&fixture, 256, 1, &endless);
    assert_true(nap(&fast) == NAP_ANY); // nobody is there
    join(&fixture, 0, 0, &anywhere, 100);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(nap(&fast), 500 * US);
    assert_true(nap(&slow) == NAP_ANY);
    assert_true(nap(&unknown) == NAP_ANY);
}

static void test_no_nap_when_loaders_would_run_dry(void **state) {
    (void)state;
    open_fixture(&fixture, 16, 1, &endless);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 15);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    finish_batches(13);
    assert_int_equal(take(&fixture, consumer, 64), 13);
    assert_int_equal(nap(&fast), 3 * fast.interval_ns); // as many are left to begin with
    assert_true(claim_one(&fixture, 1));
    assert_int_equal(nap(&fast), 2 * fast.interval_ns);
    for (int i = 0; i < 4; i++)
        assert_true(claim_one(&fixture, 1));
    assert_int_equal(nap(&fast), 0); // one of the last two chunks is left
    while (fixture.claim_count)
        finish_claim(&fixture, 0);
}

static void test_no_nap_while_a_batch_waits_to_be_granted(void **state) {
    (void)state;
    open_fixture(&fixture, 16, 1, &endless);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 2);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    finish_batches(3);
    assert_int_equal(nap(&fast), 0);
    assert_int_equal(nap(&slow), 0); // slow perhaps because others' naps make it so
    assert_int_equal(nap(&unknown), 0);
    assert_int_equal(take(&fixture, consumer, 64), 2);
    assert_int_equal(nap(&fast), 0); // it may hold no more: its next release must be answered at once
    give_back(&fixture, consumer, 0);
    assert_int_equal(take(&fixture, consumer, 64), 1);
    assert_int_equal(nap(&fast), fast.interval_ns);
}

static void test_no_nap_for_who_holds_one_batch_at_a_time(void **state) {
    (void)state;
    open_fixture(&fixture, 16, 1, &endless);
    join(&fixture, 0, 0, &anywhere, 1);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(nap(&fast), 0);
    assert_int_equal(nap(&slow), 0);
}

// A feed with two loaders that would let the supervisor sleep, and what keeps it from that.
static void test_the_supervisor_naps_on_few_busy_processors_alone(void **state) {
    (void)state;
    open_fixture(&fixture, 16, 1, &endless);
    join(&fixture, 0, 0, &anywhere, 8);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    const uint64_t allowed = 4 * fast.interval_ns;
    static struct supervisor supervisor;
    static struct served_feed feed, other;
    feed = (struct served_feed){
        .state = FEED_RUNNING, .pace = fast, .delivery = fixture.delivery, .loaders_running = 2};
    other = (struct served_feed){.state = FEED_RUNNING};
    supervisor.moderation.processors = 2;
    LIST_INIT(&supervisor.feeds);
    assert_int_equal(moderation_nap_ns(&supervisor), 0); // nobody is served
    LIST_INSERT_HEAD(&supervisor.feeds, &feed, link);
    assert_int_equal(moderation_nap_ns(&supervisor), allowed);

    supervisor.moderation.processors = 3;
    assert_int_equal(moderation_nap_ns(&supervisor), allowed);
    supervisor.moderation.processors = 4; // two loaders, the supervisor and a consumer have one each
    assert_int_equal(moderation_nap_ns(&supervisor), 0);
    feed.loaders_running = 16;
    supervisor.moderation.processors = 8;
    assert_int_equal(moderation_nap_ns(&supervisor), allowed);
    supervisor.moderation.processors = 9;
    assert_int_equal(moderation_nap_ns(&supervisor), 0);

    supervisor.moderation.processors = 2;
    LIST_INSERT_HEAD(&supervisor.feeds, &other, link);
    assert_int_equal(moderation_nap_ns(&supervisor), allowed); // without consumers it has no say
    other.state = FEED_MAKING;
    assert_int_equal(moderation_nap_ns(&supervisor), 0);
    other.state = FEED_GATHERING;
    assert_int_equal(moderation_nap_ns(&supervisor), 0);
    other.state = FEED_CLOSING;
    assert_int_equal(moderation_nap_ns(&supervisor), allowed);
    supervisor.state = SUPERVISOR_STOPPING;
    assert_int_equal(moderation_nap_ns(&supervisor), 0);
    supervisor.state = SUPERVISOR_RUNNING;
    feed.pace.interval_ns = 10 * US;
    assert_int_equal(moderation_nap_ns(&supervisor), 0); // 40 us are not worth a timer
}

int main(void) {
#define CASE(test) cmocka_unit_test_teardown(test, close_after)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace_is_measured_over_a_while),
        CASE(test_half_of_what_may_be_held_is_slept_through),
        CASE(test_it_never_naps_long_nor_for_slow_feeds),
        CASE(test_no_nap_when_loaders_would_run_dry),
        CASE(test_no_nap_for_who_holds_one_batch_at_a_time),
        CASE(test_the_supervisor_naps_on_few_busy_processors_alone),
        CASE(test_no_nap_while_a_batch_waits_to_be_granted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
