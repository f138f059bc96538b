// A daemon goes away and comes back: the consumer continues at its application's position, nothing lost, nothing twice.
#include <sched.h>

#include "base/scope.h"
#include "base/time.h"
#include "client/lib/handle.h"
#include "client/lib/leases.h"
#include "order/token.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/fake_feedd.h"

static void expect_resume(struct fake *fake, uint64_t epoch, uint64_t consumed) {
    struct resume_token token = {0};
    fake_welcome(fake, PROTO_VERSION);
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    FAKE_CHECK(fake, message && message->attach->reconnect);
    FAKE_CHECK(fake, message && resume_token_parse(message->attach->resume, &token, NULL) == 0);
    FAKE_CHECK(fake, token.epoch == epoch && token.consumed == consumed && token.fingerprint == 0xfeed);
}

// All three granted batches are in the application's hands or back when it dies.
static void die_after_three(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 3);
    fake_await_sleep(fake); // the application has taken all three, released one, and wants more
    fake_die_and_return(fake);
    expect_resume(fake, 3, 64);
    fake_attached(fake, fake->read_fd);
    fake_grant(fake, 5, 8, 1);
    fake_end(fake);
    fake_linger(fake);
}

static struct feed *begin(struct fake *fake, void (*script)(struct fake *), int reconnect_timeout_ms) {
    fake_start(fake, script);
    struct feed_options options = fake_options(fake);
    options.reconnect_timeout_ms = reconnect_timeout_ms;
    struct feed *feed;
    assert_int_equal(feed_open(&feed, &options), 0);
    return feed;
}

static void a_consumer_goes_on_where_it_stands(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, die_after_three, FAKE_WAIT_MS);
    struct feed_batch old[3], fresh;
    for (int i = 0; i < 3; i++)
        assert_int_equal(feed_next(feed, &old[i], FAKE_WAIT_MS), 1);
    assert_int_equal(feed_batch_release(feed, &old[0], NULL), 0);
    int64_t sample = feed_batch_sample(feed, &old[1], 0);
    assert_int_equal(feed_next(feed, &fresh, FAKE_WAIT_MS), 1);
    assert_int_equal(fresh.slot, 8);
    assert_int_equal(*(const uint8_t *)fresh.field[0].data, 5);
    // What is held of the old ring is readable and can be given back once.
    assert_int_equal(*(const uint8_t *)old[1].field[0].data, 6);
    assert_int_equal(feed_batch_sample(feed, &old[1], 0), sample);
    assert_int_equal(feed_batch_release(feed, &old[0], NULL), -EINVAL);
    assert_int_equal(feed_batch_release(feed, &old[2], NULL), 0);
    assert_int_equal(feed_batch_release(feed, &old[2], NULL), -EINVAL);
    assert_int_equal(feed_batch_release(feed, &old[1], NULL), 0);
    assert_int_equal(feed_batch_release(feed, &old[1], NULL), -EINVAL);
    assert_int_equal(feed_batch_release(feed, &fresh, NULL), 0);
    assert_int_equal(feed_next(feed, &fresh, FAKE_WAIT_MS), 0);
    feed_close(feed);
    fake_stop(&fake);
}

static void die_with_a_queue(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 1);
    fake_await_sleep(fake);
    fake_grant(fake, 6, 1, 2);
    fake_error(fake, ESHUTDOWN, "feedd stops");
    fake_die_and_return(fake);
    expect_resume(fake, 3, 64); // both queued batches were handed out before the error was read
    fake_attached(fake, fake->read_fd);
    fake_end(fake);
    fake_linger(fake);
}

static void queued_batches_are_neither_lost_nor_given_twice(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, die_with_a_queue, FAKE_WAIT_MS);
    struct feed_batch batch;
    for (uint64_t sequence = 5; sequence < 8; sequence++) {
        assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
        assert_int_equal(batch.sequence, sequence);
    }
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 0);
    feed_close(feed);
    fake_stop(&fake);
}

// Its slot has been given to another batch when the queued one is looked at, and no reason follows: the connection was
// cut.
static void take_back_and_vanish(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 1);
    fake_send_grant(fake, 6, (uint32_t[]){1}, 1);
    fake_die_and_return(fake);
    expect_resume(fake, 3, 48);
    fake_attached(fake, fake->read_fd);
    fake_grant(fake, 5, 2, 1);
    fake_end(fake);
    fake_linger(fake);
}

static void a_batch_taken_back_by_a_daemon_that_vanished_comes_again(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, take_back_and_vanish, FAKE_WAIT_MS);
    struct feed_batch batch;
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    assert_int_equal(batch.slot, 2);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 0);
    feed_close(feed);
    fake_stop(&fake);
}

static void overwrite_and_vanish(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 1);
    fake_await_sleep(fake); // the application has taken it
    fake_fill(fake, 0, 100);
    fake_die_and_return(fake);
    expect_resume(fake, 3, 48);
    fake_attached(fake, fake->read_fd);
    fake_end(fake);
    fake_linger(fake);
}

static void releasing_tells_of_bytes_that_changed_and_the_next_daemon_is_found(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, overwrite_and_vanish, FAKE_WAIT_MS);
    struct feed_batch batch, none;
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    assert_int_equal(feed_next(feed, &none, 0), -EAGAIN);
    while (leases_still_ours(feed->now, batch.slot))
        sched_yield();
    assert_int_equal(feed_batch_release(feed, &batch, NULL), -ETIME);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 0);
    feed_close(feed);
    fake_stop(&fake);
}

static void die_for_good(struct fake *fake) {
    fake_open(fake);
    close_fd(&fake->listener);
}

static void the_search_ends_in_time(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, die_for_good, 300);
    struct feed_batch batch;
    pthread_join(fake.thread, NULL);
    fake.script = NULL;
    assert_int_equal(feed_next(feed, &batch, 0), -EAGAIN);
    uint64_t start = monotonic_ns();
    assert_int_equal(feed_next(feed, &batch, 100), -EAGAIN);
    assert_in_range(monotonic_ns() - start, 90000000, FAKE_LATE_NS);
    assert_int_equal(feed_next(feed, &batch, -1), -ECONNRESET);
    assert_in_range(monotonic_ns() - start, 200000000, FAKE_LATE_NS);
    assert_non_null(strstr(feed_strerror(feed), "did not come back"));
    assert_int_equal(feed_next(feed, &batch, -1), -ECONNRESET);
    feed_close(feed);
    fake_stop(&fake);
}

static void come_back_with_other_data(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_die_and_return(fake);
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    fake_error(fake, ESTALE, "the token is of other data");
}

static void refusals_end_the_handle(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, come_back_with_other_data, FAKE_WAIT_MS);
    struct feed_batch batch;
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), -ESTALE);
    assert_non_null(strstr(feed_strerror(feed), "other data"));
    feed_close(feed);
    fake_stop(&fake);
}

static void come_back_without_the_dataset(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_die_and_return(fake);
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    fake_error(fake, ENOENT, "there is no dataset named \"numbers\"");
}

static void a_dataset_that_is_gone_is_not_waited_for(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, come_back_without_the_dataset, FAKE_WAIT_MS);
    struct feed_batch batch;
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), -ENOENT);
    assert_non_null(strstr(feed_strerror(feed), "no dataset named"));
    feed_close(feed);
    fake_stop(&fake);
}

static void unlink_and_listen_again(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    char away[sizeof fake->path + 1];
    snprintf(away, sizeof away, "%s-", fake->path);
    FAKE_CHECK(fake, rename(fake->path, away) == 0);
    close_fd(&fake->peer);
    usleep(120000); // some attempts find no socket
    FAKE_CHECK(fake, rename(away, fake->path) == 0);
    fake_die_and_return(fake);
    expect_resume(fake, 3, 40);
    fake_attached(fake, fake->read_fd);
    fake_end(fake);
    fake_linger(fake);
}

static void a_socket_that_is_gone_is_waited_for(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, unlink_and_listen_again, FAKE_WAIT_MS);
    struct feed_batch batch;
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 0);
    feed_close(feed);
    fake_stop(&fake);
}

// Attempts that fail at each stage leave the handle, and what it holds, as they were.
static void fail_at_each_stage(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 1);
    fake_await_sleep(fake);
    fake_die_and_return(fake); // before the hello
    fake_die_and_return(fake);
    fake_welcome(fake, PROTO_VERSION); // before the answer
    fake_die_and_return(fake);
    expect_resume(fake, 3, 48);
    fake_error(fake, EBUSY, "not yet");
    fake_die_and_return(fake);
    expect_resume(fake, 3, 48);
    fake->ring.control->header.fingerprint++; // after all is mapped
    fake_attached(fake, fake->read_fd);
    fake_linger(fake);
}

static void failed_attempts_leave_the_handle_as_it_was(void **state) {
    (void)state;
    unsigned before = open_descriptors();
    struct fake fake;
    struct feed *feed = begin(&fake, fail_at_each_stage, FAKE_WAIT_MS);
    struct feed_batch batch, none;
    char first[FEED_TOKEN_BYTES], second[FEED_TOKEN_BYTES];
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    assert_int_equal(feed_token(feed, first), 0);
    assert_int_equal(feed_next(feed, &none, FAKE_WAIT_MS), -ESTALE);
    assert_int_equal(feed_fd(feed), -1);
    assert_int_equal(*(const uint8_t *)batch.field[0].data, 5);
    assert_int_equal(feed_token(feed, second), 0);
    assert_string_equal(first, second);
    assert_int_equal(feed_describe(feed)->field_count, 2);
    assert_int_equal(feed_batch_release(feed, &batch, NULL), 0);
    assert_int_equal(feed_batch_release(feed, &batch, NULL), -EINVAL);
    feed_close(feed);
    fake_stop(&fake);
    assert_int_equal(open_descriptors(), before);
}

// Stopped, or starved of the processor, between two steps of an attempt.
static atomic_bool hold_up;

static bool held_up(void *context) {
    (void)context;
    if (atomic_exchange(&hold_up, false))
        usleep(2200000); // longer than an attempt takes
    return false;
}

static void hold_the_client_up(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_die_and_return(fake);
    usleep(100000); // by then it waits for the welcome
    atomic_store(&hold_up, true);
    fake_welcome(fake, PROTO_VERSION);
    FAKE_CHECK(fake, !fake_receive(fake)); // it must not take a place that it gives up at once
    fake_die_and_return(fake);
    expect_resume(fake, 3, 40);
    fake_attached(fake, fake->read_fd);
    fake_end(fake);
    fake_linger(fake);
}

static void one_that_was_held_up_tries_again_before_it_takes_a_place(void **state) {
    (void)state;
    struct fake fake;
    fake_start(&fake, hold_the_client_up);
    struct feed_options options = fake_options(&fake);
    options.reconnect_timeout_ms = FAKE_WAIT_MS;
    options.interrupted = held_up;
    struct feed *feed;
    struct feed_batch batch;
    assert_int_equal(feed_open(&feed, &options), 0);
    assert_int_equal(feed_next(feed, &batch, -1), 0);
    feed_close(feed);
    fake_stop(&fake);
}

// What it says when it returns, and the answer to that.
static void expect_return(struct fake *fake, bool unbegun, uint32_t wait_for) {
    fake_die_and_return(fake);
    fake_welcome(fake, PROTO_VERSION);
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    FAKE_CHECK(fake, message && message->attach->reconnect && !message->attach->confirms);
    FAKE_CHECK(fake, message && message->attach->unbegun == unbegun);
    FAKE_CHECK(fake, message && message->attach->wait_for == wait_for);
    FAKE_CHECK(fake, message && message->attach->leases == 16);
    FAKE_CHECK(fake, message && message->attach->ring_slots == FAKE_SLOTS);
}

static void tell_of_others(struct fake *fake) {
    fake_welcome(fake, PROTO_VERSION);
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    FAKE_CHECK(fake, message && message->attach->confirms);
    fake_attached(fake, fake->read_fd); // nobody has been granted anything
    message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_RELEASE);
    FAKE_CHECK(fake, message && !message->release->n_slots && !message->release->waiting);
    fake_await_sleep(fake);
    expect_return(fake, true, 3);
    fake->wait_for = 4;
    fake->prefetch = 2;
    fake_attached(fake, fake->read_fd);
    fake_await_sleep(fake);
    expect_return(fake, false, 4);
    fake_attached(fake, fake->read_fd);
    fake->wait_for = 7; // others have joined, and then most have left
    fake_send_grant(fake, 5, NULL, 0);
    fake->wait_for = 2;
    fake_send_grant(fake, 5, NULL, 0);
    fake_await_sleep(fake);
    expect_return(fake, false, 2);
    fake->prefetch = 1;
    fake_attached(fake, fake->read_fd);
    fake_grant(fake, 5, 0, 1);
    fake_linger(fake);
}

static void it_says_how_many_others_there_are_and_what_it_was_promised(void **state) {
    (void)state;
    struct fake fake;
    fake_start(&fake, tell_of_others);
    struct feed_options options = fake_options(&fake);
    options.reconnect_timeout_ms = FAKE_WAIT_MS;
    options.share = "job";
    options.wait_for = 3;
    struct feed *feed;
    struct feed_batch batch;
    assert_int_equal(feed_open(&feed, &options), 0);
    assert_int_equal(feed_describe(feed)->prefetch, 16);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    assert_int_equal(feed_describe(feed)->prefetch, 1);
    feed_close(feed);
    fake_stop(&fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_consumer_goes_on_where_it_stands),
        cmocka_unit_test(queued_batches_are_neither_lost_nor_given_twice),
        cmocka_unit_test(a_batch_taken_back_by_a_daemon_that_vanished_comes_again),
        cmocka_unit_test(releasing_tells_of_bytes_that_changed_and_the_next_daemon_is_found),
        cmocka_unit_test(the_search_ends_in_time),
        cmocka_unit_test(refusals_end_the_handle),
        cmocka_unit_test(a_dataset_that_is_gone_is_not_waited_for),
        cmocka_unit_test(a_socket_that_is_gone_is_waited_for),
        cmocka_unit_test(failed_attempts_leave_the_handle_as_it_was),
        cmocka_unit_test(one_that_was_held_up_tries_again_before_it_takes_a_place),
        cmocka_unit_test(it_says_how_many_others_there_are_and_what_it_was_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
