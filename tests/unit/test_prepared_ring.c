// Memory for the ring of the next feed: when there is some, which feed gets it, and when it makes way.
#include "base/time.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/feeds/budget.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/feeds/room.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "tests/unit/prepared_fixture.h"

static struct config config;
static struct supervisor supervisor;
static uint64_t now;

static int begin(void **state) {
    (void)state;
    config = (struct config){.prepare_loaders = true, .user_feeds = 64, .ring_memory = 64 * MIB};
    supervisor = (struct supervisor){.config = &config};
    LIST_INIT(&supervisor.feeds);
    LIST_INIT(&supervisor.kept_rings);
    mark_queue_init(&supervisor.marked_feeds);
    supervisor.own_closer = closer_open();
    now = monotonic_ns();
    return supervisor.own_closer && uv_loop_init(&supervisor.loop) == 0 ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    prepared_ring_free(&supervisor);
    closer_leave(supervisor.own_closer);
    return uv_loop_close(&supervisor.loop);
}

static void run_threads(void) {
    uv_run(&supervisor.loop, UV_RUN_DEFAULT);
}

static uint64_t tick(void) {
    now += 2 * NS_PER_S;
    prepared_ring_tick(&supervisor, now);
    run_threads();
    return prepared_ring_bytes(&supervisor);
}

static void check_zeros(int fd, uint64_t bytes) {
    uint8_t *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(map[i], 0);
    munmap(map, bytes);
}

// Takes it for that ring, which must then have that many slots.
static uint64_t take(const struct ring_plan *plan, uint32_t slots) {
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    uint64_t bytes = prepared_ring_take(&supervisor, plan, &fd, &read_fd);
    if (!bytes)
        return 0;
    const struct stat status = look_at(fd), same = look_at(read_fd);
    assert_int_equal(status.st_ino, same.st_ino);
    assert_int_equal(status.st_size, plan->total_bytes);
    assert_int_equal(status.st_blocks * 512, bytes);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, read_fd, 0), MAP_FAILED);
    check_zeros(fd, plan->total_bytes);
    assert_int_equal(ring_prepared_slots(plan, bytes), slots);
    return bytes;
}

static void one_feed_gets_it(void **state) {
    (void)state;
    struct ring_plan plan = plan_of(16, MIB);
    assert_int_equal(take(&plan, 0), 0);
    assert_int_equal(tick(), BYTES);
    assert_int_equal(room_held_bytes(&supervisor), BYTES);
    assert_int_equal(take(&plan, 1), BYTES);
    assert_int_equal(prepared_ring_bytes(&supervisor), 0);
    assert_int_equal(take(&plan, 0), 0);
    assert_int_equal(tick(), BYTES); // for the one after that
}

static void rings_of_other_sizes(void **state) {
    (void)state;
    struct ring_plan small = plan_of(4, 64 << 10), large = plan_of(4, 8 * MIB);
    struct ring_plan sparse = plan_of(4, 100 << 10);
    sparse.slot_allocated_bytes = 8192; // as with ragged fields
    assert_int_equal(tick(), BYTES);
    assert_int_equal(take(&small, 4), small.total_bytes);
    assert_int_equal(tick(), BYTES);
    assert_int_equal(take(&large, 0), BYTES);
    assert_int_equal(tick(), BYTES);
    sparse.ragged_count = 1;
    assert_int_equal(take(&sparse, 0), sparse.data_offset + 8192);
}

static void not_while_feeds_need_the_memory(void **state) {
    (void)state;
    static struct served_feed feed;
    feed = (struct served_feed){.supervisor = &supervisor, .ring_bytes = 33 * MIB, .ring_fd = -1};
    static struct stats_feed record;
    feed.stats = &record;
    LIST_INSERT_HEAD(&supervisor.feeds, &feed, link);
    assert_int_equal(tick(), 0); // less than 32 MiB are unused
    feed.ring_bytes = 32 * MIB;
    assert_int_equal(tick(), BYTES);
    config.ring_memory = 33 * MIB; // a reload
    assert_int_equal(tick(), 0);
}

static void only_where_loaders_are_prepared(void **state) {
    (void)state;
    config.prepare_loaders = false;
    assert_int_equal(tick(), 0);
    config.prepare_loaders = true;
    assert_int_equal(tick(), BYTES);
    config.prepare_loaders = false;
    assert_int_equal(tick(), 0);
    config.prepare_loaders = true;
    supervisor.state = SUPERVISOR_DRAINING;
    assert_int_equal(tick(), 0);
}

static void unwanted_while_it_is_being_made(void **state) {
    (void)state;
    prepared_ring_tick(&supervisor, now + NS_PER_S);
    assert_non_null(supervisor.prepared.ring);
    assert_int_equal(prepared_ring_bytes(&supervisor), 0);
    assert_false(prepared_ring_give_up(&supervisor));
    run_threads();
    assert_null(supervisor.prepared.ring);
}

// It makes way before an idle feed does, and comes back later.
static void it_makes_way_first(void **state) {
    (void)state;
    static struct served_feed idle;
    static struct stats_feed record;
    idle = (struct served_feed){.supervisor = &supervisor,
                                .state = FEED_RUNNING,
                                .stats = &record,
                                .ring_bytes = MIB,
                                .idle_since_ns = 1,
                                .ring_fd = -1};
    TAILQ_INIT(&idle.awaiting);
    LIST_INSERT_HEAD(&supervisor.feeds, &idle, link);
    assert_int_equal(tick(), BYTES);
    assert_true(room_make_way(&supervisor));
    assert_int_equal(prepared_ring_bytes(&supervisor), 0);
    assert_int_equal(idle.state, FEED_RUNNING);
    prepared_ring_tick(&supervisor, monotonic_ns()); // not at once
    assert_null(supervisor.prepared.ring);
    while (room_held_bytes(&supervisor) > MIB) // until the thread has freed it
        usleep(1000);
    assert_true(room_make_way(&supervisor));
    assert_int_equal(idle.state, FEED_CLOSING);
}

// Feeds may have all of ring_memory, whatever is prepared.
static void it_takes_nothing_from_feeds(void **state) {
    (void)state;
    struct error error = {0};
    static struct served_feed feed;
    feed = (struct served_feed){.supervisor = &supervisor,
                                .state = FEED_QUEUED,
                                .ring_bytes = 64 * MIB,
                                .loaders_wanted = 1,
                                .ring_fd = -1};
    TAILQ_INIT(&feed.awaiting);
    LIST_INIT(&feed.loaders);
    LIST_INSERT_HEAD(&supervisor.feeds, &feed, link);
    supervisor.feed_count = 1;
    assert_int_equal(tick(), BYTES);
    assert_int_equal(room_find(&feed, &error), 0);
    // A slot that grows gets what is prepared.
    static struct stats_feed record;
    static struct member member;
    feed.stats = &record;
    feed.state = FEED_RUNNING;
    feed.ring_bytes = 10 * MIB;
    LIST_INSERT_HEAD(&feed.members, &member, feed_link);
    assert_int_equal(budget_grow(&feed, 52 * MIB, &error), 0);
    assert_int_equal(prepared_ring_bytes(&supervisor), BYTES);
    assert_int_equal(budget_grow(&feed, 53 * MIB, &error), 0);
    assert_int_equal(prepared_ring_bytes(&supervisor), 0);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(one_feed_gets_it),
        CASE(rings_of_other_sizes),
        CASE(not_while_feeds_need_the_memory),
        CASE(only_where_loaders_are_prepared),
        CASE(unwanted_while_it_is_being_made),
        CASE(it_makes_way_first),
        CASE(it_takes_nothing_from_feeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
