// A ring that a daemon has emptied while a client still maps it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/time.h"
#include "client/lib/handle.h"
#include "tests/unit/fake_feedd.h"

static void grant_and_fail(struct fake *fake) {
    fake_open(fake);
    fake_grant(fake, 5, 0, 3);
    fake_await_sleep(fake);
    fake_error(fake, EIO, "a sample cannot be read");
}

// As far as the memory goes: where the ring was emptied, and no page is left for zeros, a look at it is a SIGBUS. Here
// the file has shrunk, which has the same effect.
static void releasing_does_not_touch_memory_that_may_be_gone(void **state) {
    (void)state;
    struct fake fake;
    fake_start(&fake, grant_and_fail);
    struct feed *feed = fake_client(&fake);
    struct feed_batch held[3], batch;
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(feed_next(feed, &held[i], FAKE_WAIT_MS), 1);
    feed->now->connection.alive_ns -= 4 * NS_PER_S;
    assert_int_equal(feed_batch_release(feed, &held[0], NULL), 0);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), -EIO);
    feed->now->connection.alive_ns = monotonic_ns() - 5 * NS_PER_S;
    assert_int_equal(feed_batch_release(feed, &held[1], NULL), 0); // it is still there
    pthread_join(fake.thread, NULL);
    fake.script = NULL;
    assert_int_equal(ftruncate(fake.ring_fd, 0), 0);
    held[2].skipped = 1;
    assert_int_equal(feed_batch_sample(feed, &held[2], 0), -ETIME);
    assert_int_equal(feed_batch_release(feed, &held[2], NULL), -ETIME);
    feed_close(feed);
    fake_stop(&fake);
}

// ---- Before the client has mapped it -----------------------------------------------------------------------

static void empty_and_attach(struct fake *fake) {
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    FAKE_CHECK(fake, fallocate(fake->ring_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                               (off_t)fake->ring.mapped_bytes) == 0);
    fake_attached(fake, fake->read_fd);
}

static void fail_at_once(struct fake *fake) {
    uint32_t slots[] = {0};
    empty_and_attach(fake);
    fake_send_grant(fake, 5, slots, 1);
    fake_error(fake, EIO, "a sample cannot be read");
}

static void queue(struct fake *fake, const Feedd__ServerMessage *message) {
    FAKE_CHECK(fake, codec_send(&fake->writer, &message->base, SIZE_MAX) == 0);
}

// The descriptor of the second message arrives with the first one.
static void grow_and_fail(struct fake *fake) {
    Feedd__Grant grant = FEEDD__GRANT__INIT;
    Feedd__SlotMemory memory = FEEDD__SLOT_MEMORY__INIT;
    Feedd__ServerMessage message = FEEDD__SERVER_MESSAGE__INIT;
    empty_and_attach(fake);
    FAKE_CHECK(fake, frame_attach_fd(&fake->writer, fake->read_fd) == 0);
    message.body_case = FEEDD__SERVER_MESSAGE__BODY_GRANT;
    message.grant = &grant;
    queue(fake, &message);
    message.body_case = FEEDD__SERVER_MESSAGE__BODY_SLOT_MEMORY;
    message.slot_memory = &memory;
    queue(fake, &message);
    fake_error(fake, EIO, "a sample cannot be read");
}

static void a_feed_that_fails_at_once_says_why(void **state) {
    (void)state;
    static const struct {
        void (*script)(struct fake *);
        int code;
        const char *text;
    } cases[] = {
        {fail_at_once, -EIO, "a sample cannot be read"},
        {grow_and_fail, -EIO, "a sample cannot be read"},
        {empty_and_attach, -ECONNRESET, "closed the connection without giving a reason"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fake fake;
        fake_start(&fake, cases[i].script);
        struct feed_options options = fake_options(&fake);
        struct feed *feed;
        int opened = feed_open(&feed, &options);
        if (opened != cases[i].code || !strstr(feed_strerror(feed), cases[i].text))
            fail_msg("%d %s", opened, feed_strerror(feed));
        feed_close(feed);
        fake_stop(&fake);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_feed_that_fails_at_once_says_why),
        cmocka_unit_test(releasing_does_not_touch_memory_that_may_be_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
