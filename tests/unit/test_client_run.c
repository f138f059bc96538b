// A feed that starts again counts its batches from the same number in the same slots, and a lane that goes back puts
// the same batches there again. A consumer that was detached before must not take what is there now for its own.
#include "base/sizes.h"
#include "order/token.h"
#include "tests/unit/fake_feedd.h"

#define LATE_US 100000 // the reason comes after the slot was reused: well within what a client waits for it

static void expect_token(const struct feed *feed, uint64_t epoch, uint64_t consumed) {
    char text[FEED_TOKEN_BYTES];
    struct resume_token token;
    assert_int_equal(feed_token(feed, text), 0);
    assert_int_equal(resume_token_parse(text, &token, NULL), 0);
    assert_int_equal(token.epoch, epoch);
    assert_int_equal(token.consumed, consumed);
}

// The batch of the next run that has the same number, at another position.
static void fill_of_next_run(struct fake *fake, uint32_t slot, uint64_t sequence) {
    fake->run++;
    fake_fill_again(fake, slot, sequence);
    ring_slot(&fake->ring, slot)->first_position += 100;
    ring_slot(&fake->ring, slot)->consumed += 100;
    fake->run--;
}

// Another batch may have been there in between.
static void fill_with_the_same(struct fake *fake, uint32_t slot, uint64_t sequence) {
    fake_fill_again(fake, slot, sequence + 20);
    fake_fill_again(fake, slot, sequence);
}

static void (*const reuses[])(struct fake *fake, uint32_t slot, uint64_t sequence) = {fill_of_next_run,
                                                                                      fill_with_the_same};
static size_t reuse; // which of them

static void reuse_a_queued_slot(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_fill(fake, 0, 5);
    reuses[reuse](fake, 0, 5);
    fake_send_grant(fake, 5, (uint32_t[]){0}, 1);
    fake_error(fake, ETIME, "detached");
}

static void reuse_a_queued_slot_first(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_fill(fake, 0, 5);
    reuses[reuse](fake, 0, 5);
    fake_send_grant(fake, 5, (uint32_t[]){0}, 1);
    usleep(LATE_US);
    fake_error(fake, ETIME, "detached");
    fake_linger(fake);
}

static void reuse_a_queued_slot_and_vanish(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_fill(fake, 0, 5);
    reuses[reuse](fake, 0, 5);
    fake_send_grant(fake, 5, (uint32_t[]){0}, 1);
}

static void a_slot_filled_again_is_not_handed_out(void **state) {
    (void)state;
    const struct {
        void (*script)(struct fake *);
        int code;
        const char *part;
    } cases[] = {
        {reuse_a_queued_slot, -ETIME, "detached"},
        {reuse_a_queued_slot_first, -ETIME, "detached"},
        {reuse_a_queued_slot_and_vanish, -ECONNRESET, "closed the connection"},
    };
    for (size_t i = 0; i < COUNT_OF(cases) * COUNT_OF(reuses); i++) {
        struct fake fake;
        struct feed_batch batch;
        reuse = i / COUNT_OF(cases);
        fake_start(&fake, cases[i % COUNT_OF(cases)].script);
        struct feed *feed = fake_client(&fake);
        int got = feed_next(feed, &batch, FAKE_WAIT_MS);
        if (got != cases[i % COUNT_OF(cases)].code ||
            !strstr(feed_strerror(feed), cases[i % COUNT_OF(cases)].part))
            fail_msg("case %zu: %d %s", i, got, feed_strerror(feed));
        expect_token(feed, 3, 40);
        assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), got);
        feed_close(feed);
        fake_stop(&fake);
    }
}

static void reuse_a_held_slot(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 2);
    fake_await_sleep(fake); // the application has taken both
    reuses[reuse](fake, 0, 5);
    reuses[reuse](fake, 1, 6);
    fake_error(fake, ETIME, "detached");
}

static void finds_out_at_the_release(void) {
    struct fake fake;
    struct feed_batch held[2], batch;
    fake_start(&fake, reuse_a_held_slot);
    struct feed *feed = fake_client(&fake);
    for (int i = 0; i < 2; i++)
        assert_int_equal(feed_next(feed, &held[i], FAKE_WAIT_MS), 1);
    assert_int_equal(feed_next(feed, &batch, 0), -EAGAIN); // says that it waits
    pthread_join(fake.thread, NULL);
    fake.script = NULL;
    assert_int_equal(feed_batch_release(feed, &held[1], NULL), -ETIME);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), -ETIME);
    expect_token(feed, 3, 56); // after the two that were right when they were handed out
    feed_close(feed);
    fake_stop(&fake);
}

static void a_release_finds_that_the_slot_was_filled_again(void **state) {
    (void)state;
    for (reuse = 0; reuse < COUNT_OF(reuses); reuse++)
        finds_out_at_the_release();
}

static void fail_and_empty_a_held_slot(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 2);
    fake_await_sleep(fake); // the application has taken both
    fake_error(fake, EIO, "sample 3 cannot be read");
}

// The first error stays; a release tells of its own batch, as feed.h says.
static void a_release_after_an_error_tells_that_the_memory_is_gone(void **state) {
    (void)state;
    struct fake fake;
    struct feed_batch held[2], batch;
    fake_start(&fake, fail_and_empty_a_held_slot);
    struct feed *feed = fake_client(&fake);
    for (int i = 0; i < 2; i++)
        assert_int_equal(feed_next(feed, &held[i], FAKE_WAIT_MS), 1);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), -EIO);
    pthread_join(fake.thread, NULL);
    fake.script = NULL;
    fill_of_next_run(&fake, 1, 9);
    assert_int_equal(feed_batch_release(feed, &held[0], NULL), 0);
    assert_int_equal(feed_batch_release(feed, &held[1], NULL), -ETIME);
    assert_non_null(strstr(feed_strerror(feed), "sample 3 cannot be read"));
    feed_close(feed);
    fake_stop(&fake);
}

// A daemon that comes back has new rings and runs.
static void come_back_with_another_run(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 1);
    fake_await_sleep(fake);
    fake_die_and_return(fake);
    fake->run = 9;
    fake_open(fake);
    fake_await_sleep(fake); // another daemon has to be told that we wait
    fake_grant(fake, 5, 1, 1);
    fake_linger(fake);
}

static void a_reconnect_takes_the_new_run(void **state) {
    (void)state;
    struct fake fake;
    struct feed_batch old, fresh;
    fake_start(&fake, come_back_with_another_run);
    struct feed_options options = fake_options(&fake);
    options.reconnect_timeout_ms = FAKE_WAIT_MS;
    struct feed *feed;
    assert_int_equal(feed_open(&feed, &options), 0);
    assert_int_equal(feed_next(feed, &old, FAKE_WAIT_MS), 1);
    assert_int_equal(feed_next(feed, &fresh, FAKE_WAIT_MS), 1);
    assert_int_equal(fresh.slot, 1);
    assert_int_equal(feed_batch_release(feed, &fresh, NULL), 0);
    assert_int_equal(feed_batch_release(feed, &old, NULL), 0);
    feed_close(feed);
    fake_stop(&fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_filled_again_is_not_handed_out),
        cmocka_unit_test(a_release_finds_that_the_slot_was_filled_again),
        cmocka_unit_test(a_release_after_an_error_tells_that_the_memory_is_gone),
        cmocka_unit_test(a_reconnect_takes_the_new_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
