// A client that waits for a daemon that does not answer asks its caller whether to go on.
#include "base/scope.h"
#include "base/sizes.h"
#include "tests/unit/fake_feedd.h"

struct caller {
    uint32_t asked;
    uint32_t patience; // how often it may be asked before it says stop
};

static bool has_enough(void *context) {
    struct caller *caller = context;
    return ++caller->asked > caller->patience;
}

// What feed_open() says to a daemon that does not answer within 400 ms.
static int open_with(const struct fake *fake, struct caller *caller) {
    struct feed *feed;
    struct feed_options options = fake_options(fake);
    options.connect_timeout_ms = 400;
    options.interrupted = has_enough;
    options.interrupted_context = caller;
    int opened = feed_open(&feed, &options);
    assert_int_equal(strstr(feed_strerror(feed), "was interrupted") != NULL, opened == -EINTR);
    feed_close(feed);
    return opened;
}

static void a_silent_daemon(void **state) {
    (void)state;
    const struct {
        uint32_t patience;
        int code;
    } cases[] = {{0, -EINTR}, {2, -EINTR}, {1000, -ETIMEDOUT}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fake fake;
        struct caller caller = {.patience = cases[i].patience};
        fake_start(&fake, fake_linger);
        assert_int_equal(open_with(&fake, &caller), cases[i].code);
        assert_in_range(caller.asked, cases[i].code == -EINTR ? caller.patience + 1 : 2, 1000);
        fake_stop(&fake);
    }
}

static void a_full_accept_queue(void **state) {
    (void)state;
    struct fake fake;
    int filler AUTO_CLOSE = -1;
    fake_listen_full(&fake, &filler);
    struct caller caller = {.patience = 3};
    assert_int_equal(open_with(&fake, &caller), -EINTR);
    assert_int_equal(caller.asked, 4);
    caller.patience = UINT32_MAX;
    assert_int_equal(open_with(&fake, &caller), -ETIMEDOUT);
    fake_stop(&fake);
}

// Comes back, says nothing until the client has given up, and is well from then on.
static void die_and_be_silent(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    fake_grant(fake, 5, 0, 1);
    fake_await_sleep(fake);
    fake_die_and_return(fake);
    fake_linger(fake);
    fake_die_and_return(fake);
    fake_open(fake);
    fake_grant(fake, 5, 8, 1);
    fake_linger(fake);
}

// A feed that looks for its daemon for as long as the caller lets it.
static struct feed *open_patiently(struct fake *fake, void (*script)(struct fake *), struct caller *caller) {
    struct feed *feed;
    fake_start(fake, script);
    struct feed_options options = fake_options(fake);
    options.reconnect_timeout_ms = FAKE_WAIT_MS;
    options.interrupted = has_enough;
    options.interrupted_context = caller;
    assert_int_equal(feed_open(&feed, &options), 0);
    return feed;
}

static void a_daemon_that_is_silent_after_its_return(void **state) {
    (void)state;
    struct fake fake;
    struct feed_batch batch;
    struct caller caller = {.patience = UINT32_MAX};
    struct feed *feed = open_patiently(&fake, die_and_be_silent, &caller);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    assert_int_equal(feed_batch_release(feed, &batch, NULL), 0);
    caller = (struct caller){.patience = 0};
    // Nobody is asked about a wait for a batch.
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), -EINTR);
    assert_int_equal(caller.asked, 1);
    caller.patience = UINT32_MAX;
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    assert_int_equal(batch.slot, 8);
    feed_close(feed);
    fake_stop(&fake);
}

// Nobody listens any more: between two tries it sleeps.
static void vanish(struct fake *fake) {
    fake_open(fake);
    fake_await_sleep(fake);
    unlink(fake->path);
    close_fd(&fake->peer);
}

static void a_daemon_that_does_not_return(void **state) {
    (void)state;
    struct fake fake;
    struct feed_batch batch;
    struct caller caller = {.patience = UINT32_MAX};
    struct feed *feed = open_patiently(&fake, vanish, &caller);
    caller = (struct caller){.patience = 2};
    assert_int_equal(feed_next(feed, &batch, -1), -EINTR);
    assert_int_equal(caller.asked, 3);
    feed_close(feed);
    fake_stop(&fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_daemon),
        cmocka_unit_test(a_full_accept_queue),
        cmocka_unit_test(a_daemon_that_is_silent_after_its_return),
        cmocka_unit_test(a_daemon_that_does_not_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
