// A daemon stops while a consumer opens: the consumer waits for the next one, as long as its options say.
#include "base/time.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/fake_feedd.h"

#define SHORT_MS 300

static void stop_at_each_stage(struct fake *fake) {
    fake_receive(fake); // killed before it answers
    fake_die_and_return(fake);
    fake_receive(fake); // asked to stop
    fake_error(fake, ESHUTDOWN, "feedd is stopping");
    fake_die_and_return(fake);
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    fake_die_and_return(fake);
    fake_welcome(fake, PROTO_VERSION);
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    FAKE_CHECK(fake, message && !message->attach->reconnect);
    fake_error(fake, ESHUTDOWN, "feedd is stopping and accepts no new consumers");
    fake_die_and_return(fake);
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 1);
    fake_linger(fake);
}

static void a_daemon_that_stops_is_waited_for(void **state) {
    (void)state;
    unsigned before = open_descriptors();
    struct fake fake;
    struct feed *feed;
    struct feed_batch batch;
    fake_start(&fake, stop_at_each_stage);
    struct feed_options options = fake_options(&fake);
    options.reconnect_timeout_ms = 0;
    assert_int_equal(feed_open(&feed, &options), 0);
    assert_string_equal(feed_strerror(feed), "");
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    feed_close(feed);
    fake_stop(&fake);
    assert_int_equal(open_descriptors(), before);
}

static void refuse_after_a_stop(struct fake *fake) {
    fake_receive(fake);
    fake_die_and_return(fake);
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    fake_error(fake, ENOENT, "there is no dataset named \"numbers\"");
    fake_linger(fake);
}

static void stop_for_good(struct fake *fake) {
    fake_receive(fake);
    close_fd(&fake->listener);
    fake_error(fake, ESHUTDOWN, "feedd is stopping");
}

// Opens with these timeouts; returns how long that took.
static uint64_t open_fails(void (*script)(struct fake *), int connect_ms, int reconnect_ms, int code,
                           const char *part) {
    struct fake fake;
    struct feed *feed;
    fake_start(&fake, script);
    struct feed_options options = fake_options(&fake);
    options.connect_timeout_ms = connect_ms;
    options.reconnect_timeout_ms = reconnect_ms;
    uint64_t start = monotonic_ns();
    assert_int_equal(feed_open(&feed, &options), code);
    uint64_t took_ms = (monotonic_ns() - start) / NS_PER_MS;
    assert_non_null(strstr(feed_strerror(feed), part));
    feed_close(feed);
    fake_stop(&fake);
    return took_ms;
}

static void the_search_ends_with_either_timeout(void **state) {
    (void)state;
    uint64_t took = open_fails(stop_for_good, SHORT_MS, FAKE_WAIT_MS, -ECONNREFUSED, "nothing accepts");
    assert_in_range(took, SHORT_MS / 2, FAKE_WAIT_MS / 2);
    took = open_fails(stop_for_good, FAKE_WAIT_MS, SHORT_MS, -ECONNREFUSED, "nothing accepts");
    assert_in_range(took, SHORT_MS / 2, FAKE_WAIT_MS / 2);
}

static void without_reconnecting_there_is_no_search(void **state) {
    (void)state;
    uint64_t took = open_fails(stop_for_good, FAKE_WAIT_MS, -1, -ESHUTDOWN, "feedd is stopping");
    assert_in_range(took, 0, FAKE_WAIT_MS / 2);
}

static void what_the_next_daemon_refuses_is_final(void **state) {
    (void)state;
    uint64_t took = open_fails(refuse_after_a_stop, FAKE_WAIT_MS, 0, -ENOENT, "no dataset");
    assert_in_range(took, 0, FAKE_WAIT_MS / 2);
}

static bool soon(void *context) {
    return ++*(int *)context > 3;
}

static void the_search_can_be_interrupted(void **state) {
    (void)state;
    int asked = 0;
    struct fake fake;
    struct feed *feed;
    fake_start(&fake, stop_for_good);
    struct feed_options options = fake_options(&fake);
    options.reconnect_timeout_ms = 0;
    options.interrupted = soon;
    options.interrupted_context = &asked;
    assert_int_equal(feed_open(&feed, &options), -EINTR);
    feed_close(feed);
    fake_stop(&fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_daemon_that_stops_is_waited_for),
        cmocka_unit_test(the_search_ends_with_either_timeout),
        cmocka_unit_test(without_reconnecting_there_is_no_search),
        cmocka_unit_test(what_the_next_daemon_refuses_is_final),
        cmocka_unit_test(the_search_can_be_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
