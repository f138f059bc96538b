// A ring that a daemon has emptied while a client still maps it.
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(releasing_does_not_touch_memory_that_may_be_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
