// Being handed batches and giving them back, against a daemon that follows a script.
#include <sys/mman.h>
#include <sys/time.h>

#include "base/sizes.h"
#include "base/time.h"
#include "tests/unit/fake_feedd.h"

static struct feed *begin(struct fake *fake, void (*script)(struct fake *)) {
    fake_start(fake, script);
    return fake_client(fake);
}

static void finish(struct fake *fake, struct feed *feed) {
    feed_close(feed);
    fake_stop(fake);
}

static void next_is(struct feed *feed, struct feed_batch *batch, uint64_t sequence) {
    int got = feed_next(feed, batch, FAKE_WAIT_MS);
    if (got != 1)
        fail_msg("feed_next: %d %s", got, feed_strerror(feed));
    assert_int_equal(batch->sequence, sequence);
}

static void fails_with(struct feed *feed, int code, const char *part) {
    struct feed_batch batch;
    int got = feed_next(feed, &batch, FAKE_WAIT_MS);
    if (got != code || !strstr(feed_strerror(feed), part))
        fail_msg("wanted %d and \"%s\", got %d and \"%s\"", code, part, got, feed_strerror(feed));
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), code);
}

// ---- The way it should go --------------------------------------------------------------------------

static void two_grants_and_the_end(struct fake *fake) {
    fake_open(fake);
    fake_grant(fake, 5, 0, 3);
    fake_grant(fake, 8, 3, 1);
    fake_end(fake);
    fake_linger(fake);
}

static void batches_come_in_order_and_then_the_end(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, two_grants_and_the_end);
    struct feed_batch batch;
    for (uint64_t sequence = 5; sequence < 9; sequence++) {
        next_is(feed, &batch, sequence);
        assert_int_equal(batch.count, FAKE_BATCH);
        assert_int_equal(batch.epoch, 3);
        assert_int_equal(batch.index, sequence);
        assert_int_equal(batch.first_position, sequence * FAKE_BATCH);
        assert_int_equal(batch.field_count, 2);
        assert_int_equal(batch.field[0].shape[0], FAKE_BATCH);
        assert_int_equal(batch.field[0].bytes, FAKE_BATCH * 20);
        assert_int_equal((uintptr_t)batch.field[1].data % 256, 0);
        for (size_t i = 0; i < batch.field[0].bytes; i++)
            assert_int_equal(((const uint8_t *)batch.field[0].data)[i], sequence);
        // The kernel refuses to make the ring writable.
        void *page = (void *)((uintptr_t)batch.field[0].data & ~(uintptr_t)(RING_PAGE - 1));
        assert_int_equal(mprotect(page, RING_PAGE, PROT_READ | PROT_WRITE), -1);
        assert_int_equal(feed_batch_release(feed, &batch, NULL), 0);
    }
    assert_int_equal(feed_next(feed, &batch, -1), 0);
    assert_int_equal(feed_next(feed, &batch, -1), 0);
    finish(&fake, feed);
}

static void grant_and_close(struct fake *fake) {
    fake_open(fake);
    fake_grant(fake, 5, 0, 1);
    fake_end(fake);
}

static void the_end_stays_the_end_when_the_daemon_closes(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, grant_and_close);
    struct feed_batch batch;
    next_is(feed, &batch, 5);
    pthread_join(fake.thread, NULL);
    fake.script = NULL;
    assert_int_equal(feed_next(feed, &batch, -1), 0);
    assert_int_equal(feed_batch_release(feed, &batch, NULL), 0);
    assert_int_equal(feed_next(feed, &batch, -1), 0);
    finish(&fake, feed);
}

// ---- Credits and releases --------------------------------------------------------------------------

static void two_credits(struct fake *fake) {
    fake->prefetch = 2;
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 2);
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_RELEASE);
    FAKE_CHECK(fake, message && message->release->n_slots == 1 && message->release->slots[0] == 1);
    fake_grant(fake, 7, 1, 1);
    fake_linger(fake);
}

static void holding_everything_is_not_waiting(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, two_credits);
    struct feed_batch first, second, third;
    next_is(feed, &first, 5);
    next_is(feed, &second, 6);
    assert_int_equal(feed_next(feed, &third, -1), -ENOBUFS);
    assert_non_null(strstr(feed_strerror(feed), "all 2 batches"));
    assert_int_equal(feed_batch_release(feed, &second, NULL), 0);
    next_is(feed, &third, 7);
    assert_int_equal(third.slot, 1);
    // The same slot, but another batch: the old lease is gone.
    assert_int_equal(feed_batch_release(feed, &second, NULL), -EINVAL);
    assert_int_equal(feed_batch_release(feed, &third, NULL), 0);
    assert_int_equal(feed_batch_release(feed, &third, NULL), -EINVAL);
    third.slot = FAKE_SLOTS;
    assert_int_equal(feed_batch_release(feed, &third, NULL), -EINVAL);
    assert_int_equal(feed_batch_release(feed, &first, NULL), 0);
    finish(&fake, feed);
}

struct tally {
    uint32_t messages, slots, waiting;
};

static void count_releases(struct fake *fake) {
    struct tally *tally = fake->context;
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 16);
    const Feedd__ClientMessage *message;
    while ((message = fake_receive(fake))) {
        tally->messages++;
        tally->slots += (uint32_t)message->release->n_slots;
        tally->waiting += message->release->waiting;
    }
}

static void releases_travel_together(void **state) {
    (void)state;
    struct fake fake;
    struct tally tally = {0};
    fake_start_at(&fake, count_releases, FAKE_SAMPLES, 3, 40, &tally);
    struct feed *feed = fake_client(&fake);
    struct feed_batch batch;
    for (uint64_t sequence = 5; sequence < 20; sequence++) {
        next_is(feed, &batch, sequence);
        assert_int_equal(feed_batch_release(feed, &batch, NULL), 0);
    }
    next_is(feed, &batch, 20);                             // 15 releases: three messages of 4, and 3 pending
    assert_int_equal(feed_next(feed, &batch, 0), -EAGAIN); // tells the rest, and that we wait
    assert_int_equal(feed_next(feed, &batch, 0), -EAGAIN); // nothing new to say
    assert_int_equal(feed_next(feed, &batch, 10), -EAGAIN);
    assert_int_equal(feed_batch_release(feed, &batch, NULL),
                     0); // at once: it may be the one that we wait for
    finish(&fake, feed);
    assert_int_equal(tally.slots, 16);
    assert_int_equal(tally.messages, 5);
    assert_int_equal(tally.waiting, 2);
}

static void grant_when_waited_for(struct fake *fake) {
    fake_open(fake);
    for (uint64_t sequence = 5; sequence < 8; sequence++) {
        const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_RELEASE);
        FAKE_CHECK(fake, message && message->release->waiting);
        FAKE_CHECK(fake, message && message->release->n_slots == (sequence > 5));
        fake_grant(fake, sequence, (uint32_t)sequence, 1);
    }
    fake_end(fake);
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_RELEASE);
    FAKE_CHECK(fake, message && message->release->n_slots == 1);
}

static void each_sleep_says_that_it_waits(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, grant_when_waited_for);
    struct feed_batch batch;
    for (uint64_t sequence = 5; sequence < 8; sequence++) {
        next_is(feed, &batch, sequence);
        assert_int_equal(feed_batch_release(feed, &batch, NULL), 0);
    }
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 0);
    finish(&fake, feed);
}

// ---- A daemon that is wrong, or ends it ------------------------------------------------------------

static void grant_slots(struct fake *fake, uint64_t sequence, uint32_t first, uint32_t step, size_t count) {
    uint32_t slots[FAKE_SLOTS];
    for (size_t i = 0; i < count; i++)
        slots[i] = first + (uint32_t)i * step;
    fake_open(fake);
    fake_send_grant(fake, sequence, slots, count);
    fake_linger(fake);
}

static void grant_too_many(struct fake *fake) {
    grant_slots(fake, 5, 0, 1, 17);
}
static void grant_outside(struct fake *fake) {
    grant_slots(fake, 5, FAKE_SLOTS, 1, 1);
}
static void grant_with_a_gap(struct fake *fake) {
    grant_slots(fake, 6, 0, 1, 1);
}
static void grant_a_slot_twice(struct fake *fake) {
    grant_slots(fake, 5, 3, 0, 2);
}
static void grant_without_a_batch(struct fake *fake) {
    grant_slots(fake, 5, 3, 1, 1);
}

static void grant_without_its_fill(struct fake *fake) {
    fake_open(fake);
    fake_send_fills(fake, 5, (uint32_t[]){3}, 1, 0);
}
static void grant_with_a_fill_too_many(struct fake *fake) {
    fake_open(fake);
    fake_send_fills(fake, 5, (uint32_t[]){3}, 1, 2);
}

static void welcome_again(struct fake *fake) {
    fake_open(fake);
    fake_send_grant(fake, 5, NULL, 0);
    Feedd__Welcome welcome = FEEDD__WELCOME__INIT;
    FAKE_SEND(fake, WELCOME, welcome, &welcome);
    fake_linger(fake);
}

static void grant_more_than_fits(struct fake *fake) {
    fake_open(fake);
    fake_fill(fake, 0, 5);
    ring_slot(&fake->ring, 0)->count = FAKE_BATCH + 1;
    fake_send_grant(fake, 5, (uint32_t[]){0}, 1);
    fake_linger(fake);
}

static void a_lost_consumer(struct fake *fake) {
    fake_open(fake);
    fake_error(fake, ETIME, "detached: held up others for 30 s");
}

static void an_ambiguous_error(struct fake *fake) {
    fake_open(fake);
    fake_error(fake, EAGAIN, "the daemon is out of something");
}

static void what_ends_a_handle_says_why(void **state) {
    (void)state;
    const struct {
        void (*script)(struct fake *);
        int code;
        const char *part;
    } cases[] = {
        {grant_too_many, -EPROTO, "more than the 16 batches"},
        {grant_outside, -EPROTO, "granted slot 32 of 32"},
        {grant_with_a_gap, -EPROTO, "granted batch 6 after batch 5"},
        {grant_a_slot_twice, -EPROTO, "granted slot 3 twice"},
        {grant_without_a_batch, -EPROTO, "reused a slot"},
        {grant_without_its_fill, -EPROTO, "granted 1 slots, and said of 0"},
        {grant_with_a_fill_too_many, -EPROTO, "granted 1 slots, and said of 2"},
        {grant_more_than_fits, -EPROTO, "holds 9 samples"},
        {welcome_again, -EPROTO, "out of turn"},
        {a_lost_consumer, -ETIME, "detached: held up others for 30 s"},
        {an_ambiguous_error, -EIO, "out of something"},
        {fake_open, -ECONNRESET, "closed the connection"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fake fake;
        struct feed *feed = begin(&fake, cases[i].script);
        fails_with(feed, cases[i].code, cases[i].part);
        finish(&fake, feed);
    }
}

static void grant_and_vanish(struct fake *fake) {
    fake_open(fake);
    fake_grant(fake, 5, 0, 2);
}

static void batches_in_hand_outlive_the_daemon(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, grant_and_vanish);
    pthread_join(fake.thread, NULL);
    fake.script = NULL;
    struct feed_batch first, second;
    char token[FEED_TOKEN_BYTES];
    next_is(feed, &first, 5);
    next_is(feed, &second, 6);
    fails_with(feed, -ECONNRESET, "closed the connection");
    assert_int_equal(*(const uint8_t *)first.field[0].data, 5);
    assert_int_equal(feed_token(feed, token), 0);
    assert_int_equal(feed_batch_release(feed, &first, NULL), 0);
    assert_int_equal(feed_batch_release(feed, &second, NULL), 0);
    finish(&fake, feed);
}

// Detached while it holds one batch and has two in its queue: the slots hold other batches by now.
static void grant_and_take_back(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 3);
    fake_await_sleep(fake); // now the test is ready for it
    fake_grant(fake, 8, 3, 3);
    fake_error(fake, ETIME, "detached");
    for (uint32_t slot = 0; slot < FAKE_SLOTS; slot++)
        fake_fill(fake, slot, 100 + slot);
}

static void nothing_is_handed_out_that_was_taken_back(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, grant_and_take_back);
    struct feed_batch held[3], batch;
    for (uint64_t i = 0; i < 3; i++)
        next_is(feed, &held[i], 5 + i);
    assert_int_equal(feed_batch_release(feed, &held[0], NULL), 0);
    assert_int_equal(feed_next(feed, &batch, 0), -EAGAIN);
    pthread_join(fake.thread, NULL);
    fake.script = NULL;
    assert_int_equal(feed_batch_release(feed, &held[1], NULL),
                     -ETIME); // its bytes may not have been what they seemed
    fails_with(feed, -ETIME, "detached");
    assert_int_equal(feed_batch_release(feed, &held[2], NULL), -ETIME);
    finish(&fake, feed);
}

static void queued_batches_that_were_taken_back_are_not_handed_out(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, grant_and_take_back);
    struct feed_batch batch;
    for (uint64_t i = 0; i < 3; i++)
        next_is(feed, &batch, 5 + i);
    int got;
    while ((got = feed_next(feed, &batch, 1)) == -EAGAIN)
        ;
    assert_true(got == 1 || got == -ETIME); // before the script had overwritten it, or after
    pthread_join(fake.thread, NULL);
    fake.script = NULL;
    fails_with(feed, -ETIME, "detached");
    finish(&fake, feed);
}

// ---- Time ------------------------------------------------------------------------------------------

static void say_nothing(struct fake *fake) {
    fake_open(fake);
    fake_linger(fake);
}

static void interrupted(int signal) {
    (void)signal;
}

static void timeouts_are_kept_also_under_signals(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed = begin(&fake, say_nothing);
    struct feed_batch batch;
    uint64_t start = monotonic_ns();
    assert_int_equal(feed_next(feed, &batch, 0), -EAGAIN);
    assert_in_range(monotonic_ns() - start, 0, FAKE_LATE_NS);

    assert_int_equal(sigaction(SIGALRM, &(struct sigaction){.sa_handler = interrupted}, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){{0, 7000}, {0, 7000}}, NULL), 0);
    start = monotonic_ns();
    assert_int_equal(feed_next(feed, &batch, 150), -EAGAIN);
    assert_in_range(monotonic_ns() - start, 150000000, FAKE_LATE_NS);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    assert_non_null(strstr(feed_strerror(feed), "150 ms"));
    finish(&fake, feed);
}

#define TEST(name) cmocka_unit_test(name)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(batches_come_in_order_and_then_the_end),
        TEST(the_end_stays_the_end_when_the_daemon_closes),
        TEST(holding_everything_is_not_waiting),
        TEST(releases_travel_together),
        TEST(each_sleep_says_that_it_waits),
        TEST(what_ends_a_handle_says_why),
        TEST(batches_in_hand_outlive_the_daemon),
        TEST(nothing_is_handed_out_that_was_taken_back),
        TEST(queued_batches_that_were_taken_back_are_not_handed_out),
        TEST(timeouts_are_kept_also_under_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
