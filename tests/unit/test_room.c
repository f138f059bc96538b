// Room for a queued feed: who waits, who makes way, who is refused. Idle feeds that are kept all the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/budget.h"
#include "daemon/supervisor/feeds/feed_loaders_count.h"
#include "daemon/supervisor/feeds/idle.h"
#include "daemon/supervisor/feeds/room.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "shm/ring_room.h"

#define KIB   1024u
#define USER  7u
#define OTHER 8u

static struct config config;
static struct supervisor supervisor;
static struct served_feed feeds[80];
static struct member members[80]; // of the feed with the same number, if it is in use
static struct stats_feed record;
static uint32_t count;

static int begin(void **state) {
    (void)state;
    config = (struct config){.stop_timeout_s = 10, .user_feeds = 64, .ring_memory = 1u << 30};
    supervisor = (struct supervisor){.config = &config};
    LIST_INIT(&supervisor.feeds);
    mark_queue_init(&supervisor.marked_feeds);
    count = 0;
    return 0;
}

static struct served_feed *add(enum feed_state state, uint32_t loaders) {
    struct served_feed *feed = &feeds[count];
    *feed = (struct served_feed){.supervisor = &supervisor,
                                 .id = ++count,
                                 .user = USER,
                                 .state = state,
                                 .stats = state == FEED_QUEUED ? NULL : &record,
                                 .loaders_wanted = loaders,
                                 .ring_bytes = 64 * KIB,
                                 .ring_fd = -1};
    LIST_INIT(&feed->members);
    TAILQ_INIT(&feed->awaiting);
    LIST_INIT(&feed->pools);
    LIST_INIT(&feed->loaders);
    LIST_INSERT_HEAD(&supervisor.feeds, feed, link);
    return feed;
}

static struct served_feed *add_used(uint32_t loaders) {
    struct member *member = &members[count];
    struct served_feed *feed = add(FEED_RUNNING, loaders);
    LIST_INSERT_HEAD(&feed->members, member, feed_link);
    return feed;
}

static struct served_feed *add_queued(uint32_t loaders) {
    struct member *member = &members[count];
    struct served_feed *feed = add(FEED_QUEUED, loaders);
    TAILQ_INSERT_HEAD(&feed->awaiting, member, awaited_link);
    return feed;
}

static struct served_feed *add_idle(uint32_t loaders, uint64_t since) {
    struct served_feed *feed = add(FEED_RUNNING, loaders);
    feed->idle_since_ns = since;
    return feed;
}

// As the end of a closed feed: feeds_free.
static void forget(struct served_feed *feed) {
    assert_int_equal(feed->state, FEED_CLOSING);
    LIST_REMOVE(feed, link);
    mark_clear(&supervisor.marked_feeds, &feed->mark);
}

static int find(struct served_feed *feed) {
    struct error error = {0};
    return room_find(feed, &error);
}

static void the_feed_that_was_idle_for_longest_makes_way(void **state) {
    (void)state;
    for (uint32_t i = 0; i < STATS_MAX_FEEDS - 3; i++)
        add_used(1);
    struct served_feed *young = add_idle(1, 30), *old = add_idle(1, 10), *middle = add_idle(1, 20);
    struct served_feed *wanted = add_queued(1);
    assert_int_equal(find(wanted), 1);
    assert_int_equal(old->state, FEED_CLOSING);
    assert_true(old->mark.set);
    // Asking again closes no more: what is ending is enough.
    assert_int_equal(find(wanted), 1);
    assert_int_equal(middle->state, FEED_RUNNING);
    forget(old);
    assert_int_equal(find(wanted), 0);
    assert_int_equal(middle->state, FEED_RUNNING);
    assert_int_equal(young->state, FEED_RUNNING);
}

static void all_feeds_are_in_use(void **state) {
    (void)state;
    struct error error = {0};
    for (uint32_t i = 0; i < STATS_MAX_FEEDS; i++)
        add_used(1);
    assert_int_equal(room_find(add_queued(1), &error), -EBUSY);
    assert_non_null(strstr(error.text, "64 feeds"));
}

static void those_queued_before_come_first(void **state) {
    (void)state;
    for (uint32_t i = 0; i < STATS_MAX_FEEDS - 2; i++)
        add_used(1);
    struct served_feed *old = add_idle(1, 10), *young = add_idle(1, 20);
    struct served_feed *first = add_queued(1), *second = add_queued(1), *third = add_queued(1);
    assert_int_equal(find(second), 1); // asked first: makes room for both
    assert_int_equal(old->state, FEED_CLOSING);
    assert_int_equal(young->state, FEED_CLOSING);
    assert_int_equal(find(first), 1);
    assert_int_equal(find(third),
                     1); // there is none for it, but that is known only when the others have begun
    forget(old);
    assert_int_equal(find(second), 1);
    assert_int_equal(find(first), 0);
    first->state = FEED_MAKING;
    first->stats = &record;
    assert_int_equal(find(second), 1);
    forget(young);
    assert_int_equal(find(second), 0);
    second->state = FEED_MAKING;
    second->stats = &record;
    assert_int_equal(find(third), -EBUSY);
}

static void loaders_of_idle_feeds_make_way(void **state) {
    (void)state;
    struct error error = {0};
    for (uint32_t i = 0; i < 7; i++)
        add_used(64);
    struct served_feed *idle = add_idle(40, 10);
    struct served_feed *wanted = add_queued(64);
    // 24 are unused; with those of the idle feed it is all that it wants.
    assert_int_equal(find(wanted), 1);
    assert_int_equal(idle->state, FEED_CLOSING);
    forget(idle);
    assert_int_equal(find(wanted), 0);
    // A few are better than none ...
    add_used(60);
    assert_int_equal(find(wanted), 0);
    // ... which is refused.
    add_used(4);
    assert_int_equal(room_find(wanted, &error), -EBUSY);
    assert_non_null(strstr(error.text, "512 loader processes"));
}

// As when it has started so many: they run, and have records in the statistics.
static void start_loaders(struct served_feed *feed, struct loader_process *loaders,
                          struct stats_loader *records) {
    for (uint32_t i = 0; i < feed->loaders_wanted; i++) {
        loaders[i] = (struct loader_process){.serial = i + 1, .stripe = i, .record = &records[i]};
        LIST_INSERT_HEAD(&feed->loaders, &loaders[i], link);
    }
    feed->loaders_running = feed->loaders_wanted;
}

// A loader has its record until it is gone, also when it is only to finish what it has claimed.
static void loaders_that_retire_keep_their_records(void **state) {
    (void)state;
    static struct loader_process loaders[64];
    static struct stats_loader records[64];
    struct error error = {0};
    struct served_feed *shrinking = add_used(64), *growing = add_used(1);
    supervisor.feed_count = STATS_MAX_FEEDS; // nothing is kept for others
    add_used(63);
    for (uint32_t i = 0; i < 6; i++)
        add_used(64);
    start_loaders(shrinking, loaders, records);
    assert_int_equal(feed_loaders_set(growing, 2, &error), -EBUSY); // all 512 are taken
    assert_int_equal(feed_loaders_set(shrinking, 1, &error), 0);
    assert_int_equal(shrinking->loaders_running, 1);
    assert_int_equal(feed_loaders_taken(shrinking), 64);
    struct served_feed *wanted = add_queued(1);
    assert_int_equal(feed_loaders_set(growing, 2, &error), -EBUSY);
    assert_int_equal(find(wanted), -EBUSY);
    for (uint32_t gone = 0; gone < 2; gone++) { // as feed_loaders_act takes it off the list
        struct loader_process *loader = LIST_FIRST(&shrinking->loaders);
        assert_true(loader->retired_ns && atomic_load(&loader->record->retires));
        LIST_REMOVE(loader, link);
    }
    assert_int_equal(feed_loaders_set(growing, 3, &error), -EBUSY); // the other one is for the queued feed
    assert_int_equal(feed_loaders_set(growing, 2, &error), 0);
    assert_int_equal(find(wanted), 0);
}

// A loader in a read that never ends keeps its feed from ending.
static void a_feed_that_does_not_end_is_not_waited_for_indefinitely(void **state) {
    (void)state;
    for (uint32_t i = 0; i < STATS_MAX_FEEDS - 2; i++)
        add_used(1);
    struct served_feed *old = add_idle(1, 10), *young = add_idle(1, 20), *wanted = add_queued(1);
    assert_int_equal(find(wanted), 1);
    old->closing_since_ns = monotonic_ns() - 60 * NS_PER_S;
    assert_int_equal(find(wanted), 1);
    assert_int_equal(young->state, FEED_CLOSING);
    young->closing_since_ns = old->closing_since_ns;
    assert_int_equal(find(wanted), -EBUSY);
}

static void memory_of_idle_feeds_makes_way(void **state) {
    (void)state;
    struct error error = {0};
    uint64_t available = ring_free_bytes();
    if (available == UINT64_MAX) {
        print_message("skip: /dev/shm has no limit\n");
        skip();
    }
    config.ring_memory = config.user_ring_memory = 1ull << 60;
    struct served_feed *old = add_idle(1, 10), *young = add_idle(1, 20), *wanted = add_queued(1);
    old->ring_bytes = young->ring_bytes = 8ull << 30;
    // Others may take or free some meanwhile, but hardly gigabytes.
    wanted->ring_bytes = available + (4ull << 30);
    assert_true(room_ring_bytes(&supervisor) > available + (12ull << 30));
    assert_int_equal(find(wanted), 1);
    assert_int_equal(old->state, FEED_CLOSING);
    assert_int_equal(young->state, FEED_RUNNING);
    wanted->ring_bytes = available + (40ull << 30);
    assert_int_equal(room_find(wanted, &error), -ENOSPC);
    assert_non_null(strstr(error.text, "does not fit"));
    assert_int_equal(young->state, FEED_RUNNING); // not in vain
}

// Memory of feeds that were closed counts until it is given back, for all and for the user.
static void memory_of_closed_feeds_counts(void **state) {
    (void)state;
    struct error error = {0};
    for (int of_user = 0; of_user < 2; of_user++) {
        config.ring_memory = of_user ? 1u << 30 : 4 * 64 * KIB;
        config.user_ring_memory = of_user ? 4 * 64 * KIB : 1u << 30;
        struct served_feed *closed = add_idle(1, 10), *wanted = add_queued(1);
        closed->ring_bytes = 3 * 64 * KIB;
        assert_int_equal(find(wanted), 0);
        wanted->ring_bytes = 2 * 64 * KIB;
        served_feed_close(closed);
        assert_int_equal(find(wanted), 1);
        closed->closing_since_ns = monotonic_ns() - 60 * NS_PER_S; // a loader of it does not end
        assert_int_equal(room_find(wanted, &error), -ENOSPC);
        assert_non_null(strstr(error.text, "feeds that were closed still have memory"));
        forget(closed);
        assert_int_equal(find(wanted), 0);
        LIST_REMOVE(wanted, link);
    }
}

static void a_lack_that_shows_late(void **state) {
    (void)state;
    add_used(1);
    struct served_feed *old = add_idle(1, 10), *young = add_idle(1, 20);
    assert_true(room_make_way(&supervisor));
    assert_int_equal(old->state, FEED_CLOSING);
    assert_true(room_make_way(&supervisor)); // one at a time
    assert_int_equal(young->state, FEED_RUNNING);
    forget(old);
    assert_true(room_make_way(&supervisor));
    forget(young);
    assert_false(room_make_way(&supervisor));
}

static void a_budget_is_made_room_in_by_the_oldest_and_never_in_vain(void **state) {
    (void)state;
    struct error error = {0};
    config.loaders = 1;
    config.user_feeds = 3;
    config.user_ring_memory = 4 * 64 * KIB;
    config.ring_memory = 4 * 64 * KIB;
    struct served_feed *others = add_idle(1, 5);
    others->user = OTHER;
    struct served_feed *used = add_used(1), *old = add_idle(1, 10), *young = add_idle(1, 20);
    assert_int_equal(budget_make_room(&supervisor, USER, 4 * 64 * KIB, &error), -ENOSPC);
    assert_int_equal(others->state, FEED_RUNNING);
    assert_int_equal(old->state, FEED_RUNNING);
    assert_int_equal(budget_make_room(&supervisor, USER, 64 * KIB, &error), 0);
    assert_int_equal(old->state, FEED_CLOSING); // of the user's own feeds, for user_feeds
    assert_int_equal(others->state, FEED_RUNNING);
    assert_int_equal(budget_make_room(&supervisor, USER, 2 * 64 * KIB, &error), 0);
    assert_int_equal(others->state, FEED_CLOSING); // of anybody's, for ring_memory
    assert_int_equal(young->state, FEED_RUNNING);
    assert_int_equal(used->state, FEED_RUNNING);
    assert_int_equal(room_held_bytes(&supervisor),
                     4 * 64 * KIB); // those that close have theirs until they are gone
    forget(old);
    assert_int_equal(room_held_bytes(&supervisor), 3 * 64 * KIB);
    assert_ptr_equal(idle_longest(&supervisor, IDLE_OF_ANYBODY), young);
    assert_null(idle_longest(&supervisor, OTHER));
}

// ---- Clients that may come back ----------------------------------------------------------------------------

// Its client has left before its pool was open.
static struct served_feed *add_left(uid_t user) {
    struct served_feed *feed = add_idle(1, count + 1);
    feed->user = user;
    idle_expect_return(feed);
    return feed;
}

static void a_feed_is_kept_for_a_client_that_may_come_back(void **state) {
    (void)state;
    struct served_feed *left = add_left(USER);
    uint64_t now = monotonic_ns();
    assert_true(idle_is_kept(left, now));
    assert_false(idle_is_kept(left, now + 6 * NS_PER_S));
    assert_false(idle_is_kept(add_idle(1, 10), now));
    supervisor.state = SUPERVISOR_DRAINING; // it could not attach
    assert_false(idle_is_kept(left, now));
}

static void few_feeds_are_kept_for_clients_that_may_come_back(void **state) {
    (void)state;
    config.loaders = 1;
    config.user_feeds = 20;
    uint64_t now = monotonic_ns();
    for (uint32_t i = 0; i < 20 / 4; i++)
        assert_true(idle_is_kept(add_left(USER), now));
    struct served_feed *late = add_left(USER), *others = add_left(OTHER);
    assert_false(idle_is_kept(late, now));
    assert_true(idle_is_kept(others, now));
    late->warm_until_ns = 0;
    for (uid_t user = OTHER + 1; count < STATS_MAX_FEEDS / 4 + 1; user++)
        assert_true(idle_is_kept(add_left(user), now));
    assert_false(idle_is_kept(add_left(OTHER + 20), now));
    feeds[0].warm_until_ns = now; // a client has not come back
    assert_true(idle_is_kept(&feeds[count - 1], now));
}

static void one_feed_is_kept_for_whoever_may_have_few(void **state) {
    (void)state;
    config.user_feeds = 1;
    assert_true(idle_is_kept(add_left(USER), monotonic_ns()));
}

static void a_feed_that_is_kept_for_a_client_makes_way(void **state) {
    (void)state;
    struct served_feed *left = add_left(USER);
    while (count < STATS_MAX_FEEDS)
        add_used(1);
    assert_true(idle_is_kept(left, monotonic_ns()));
    assert_int_equal(find(add_queued(1)), 1);
    assert_int_equal(left->state, FEED_CLOSING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_feed_that_was_idle_for_longest_makes_way, begin),
        cmocka_unit_test_setup(all_feeds_are_in_use, begin),
        cmocka_unit_test_setup(those_queued_before_come_first, begin),
        cmocka_unit_test_setup(loaders_of_idle_feeds_make_way, begin),
        cmocka_unit_test_setup(loaders_that_retire_keep_their_records, begin),
        cmocka_unit_test_setup(a_feed_that_does_not_end_is_not_waited_for_indefinitely, begin),
        cmocka_unit_test_setup(memory_of_idle_feeds_makes_way, begin),
        cmocka_unit_test_setup(memory_of_closed_feeds_counts, begin),
        cmocka_unit_test_setup(a_lack_that_shows_late, begin),
        cmocka_unit_test_setup(a_budget_is_made_room_in_by_the_oldest_and_never_in_vain, begin),
        cmocka_unit_test_setup(a_feed_is_kept_for_a_client_that_may_come_back, begin),
        cmocka_unit_test_setup(few_feeds_are_kept_for_clients_that_may_come_back, begin),
        cmocka_unit_test_setup(one_feed_is_kept_for_whoever_may_have_few, begin),
        cmocka_unit_test_setup(a_feed_that_is_kept_for_a_client_makes_way, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
