// Names of feeds that the statistics do not have: asked of the daemon, once, and only if that seems to work.
#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/feed_names.h"
#include "tests/unit/fake_feedd.h"

#define S UINT64_C(1000000000)

// Too much for the stack.
static struct stats_snapshot snapshot;
static struct feed_names names;

static void take_snapshot(uint64_t at_ns, uint32_t feeds) {
    memset(&snapshot, 0, sizeof snapshot);
    snapshot.pid = 5;
    snapshot.started_ns = 3;
    snapshot.taken_ns = snapshot.heartbeat_ns = at_ns;
    snapshot.feed_count = feeds;
    for (uint32_t i = 0; i < feeds; i++)
        snapshot.feeds[i].id = 10 + i;
}

// Answers one question: feed 11 belongs to this user. Feed 99 is newer than the snapshot.
static void answer_once(struct fake *fake) {
    Feedd__Feed rows[2];
    Feedd__Feed *list[2] = {&rows[0], &rows[1]};
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        feedd__feed__init(&rows[i]);
        rows[i].id = i ? 99 : 11;
        rows[i].name = (char *)"job";
        rows[i].dataset = (char *)"numbers";
    }
    answer.n_feeds = COUNT_OF(rows);
    answer.feeds = list;
    fake_welcome(fake, PROTO_VERSION);
    const Feedd__ClientMessage *question = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_QUERY);
    FAKE_CHECK(fake, question && question->query->kind == FEEDD__QUERY__KIND__FEEDS);
    FAKE_SEND(fake, ANSWER, answer, &answer);
    fake_linger(fake);
}

static void check_names(void) {
    assert_string_equal(snapshot.feeds[0].name, "");
    assert_string_equal(snapshot.feeds[0].dataset, "");
    assert_string_equal(snapshot.feeds[1].name, "job");
    assert_string_equal(snapshot.feeds[1].dataset, "numbers");
}

static void they_are_asked_for_once(void **state) {
    (void)state;
    struct fake fake;
    memset(&names, 0, sizeof names);
    fake_start(&fake, answer_once);
    struct ctl ctl = {.socket = fake.path};
    take_snapshot(100 * S, 2);
    feed_names_fill(&names, &ctl, &snapshot);
    check_names();
    fake_stop(&fake);
    // What is known is not asked again, nor what the daemon keeps to itself: nobody would answer.
    take_snapshot(101 * S, 2);
    feed_names_fill(&names, &ctl, &snapshot);
    check_names();
    assert_int_equal(names.failed_ns, 0);
}

static void names_that_are_there_are_kept(void **state) {
    (void)state;
    struct ctl ctl = {.socket = "/nonexistent/feedd.sock"};
    memset(&names, 0, sizeof names);
    take_snapshot(100 * S, 1);
    strcpy(snapshot.feeds[0].name, "mine");
    strcpy(snapshot.feeds[0].dataset, "others");
    feed_names_fill(&names, &ctl, &snapshot);
    assert_string_equal(snapshot.feeds[0].name, "mine");
    assert_string_equal(snapshot.feeds[0].dataset, "others");
    assert_int_equal(names.failed_ns, 0); // it was not asked
}

static void a_daemon_that_may_hang_is_not_asked(void **state) {
    (void)state;
    struct ctl ctl = {.socket = "/nonexistent/feedd.sock"};
    memset(&names, 0, sizeof names);
    take_snapshot(100 * S, 1);
    snapshot.heartbeat_ns -= 2 * S;
    feed_names_fill(&names, &ctl, &snapshot);
    snapshot.heartbeat_ns = snapshot.taken_ns;
    snapshot.stopped = true;
    feed_names_fill(&names, &ctl, &snapshot);
    assert_int_equal(names.failed_ns, 0);
}

static void without_an_answer_it_is_left_alone_for_a_while(void **state) {
    (void)state;
    struct ctl ctl = {.socket = "/nonexistent/feedd.sock"};
    memset(&names, 0, sizeof names);
    static const uint64_t at[] = {100 * S, 104 * S, 106 * S}, failed[] = {100 * S, 100 * S, 106 * S};
    for (size_t i = 0; i < COUNT_OF(at); i++) {
        take_snapshot(at[i], 1);
        feed_names_fill(&names, &ctl, &snapshot);
        assert_int_equal(names.failed_ns, failed[i]);
        assert_string_equal(snapshot.feeds[0].dataset, "");
    }
}

// Accepts, and says nothing.
static void say_nothing(struct fake *fake) {
    fake_linger(fake);
}

static void it_is_waited_for_only_briefly(void **state) {
    (void)state;
    struct fake fake;
    memset(&names, 0, sizeof names);
    fake_start(&fake, say_nothing);
    struct ctl ctl = {.socket = fake.path};
    take_snapshot(100 * S, 1);
    uint64_t began = monotonic_ns();
    feed_names_fill(&names, &ctl, &snapshot);
    assert_true(monotonic_ns() - began < 4 * S);
    assert_int_equal(names.failed_ns, 100 * S);
    fake_stop(&fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_asked_for_once),
        cmocka_unit_test(names_that_are_there_are_kept),
        cmocka_unit_test(a_daemon_that_may_hang_is_not_asked),
        cmocka_unit_test(without_an_answer_it_is_left_alone_for_a_while),
        cmocka_unit_test(it_is_waited_for_only_briefly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
