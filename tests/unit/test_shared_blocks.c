// Which feeds share decoded blocks, and which loader gets which arena.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/feeds/shared_blocks.h"
#include "daemon/supervisor/processes/loader_process.h"

static struct supervisor supervisor;
static struct served_feed feed;
static struct dataset dataset, part;
static struct dataset_layout layout, part_layout;
static struct dataset *parts[] = {&part, &part};

static void make_feed(uint64_t memory, uint32_t loaders) {
    memset(&layout, 0, sizeof layout);
    layout.blocks = (struct dataset_blocks){.count = 7, .memory = memory};
    dataset = (struct dataset){.layout = &layout};
    feed = (struct served_feed){
        .supervisor = &supervisor, .dataset = &dataset, .loaders_wanted = loaders, .share_fd = -1};
    LIST_INIT(&feed.loaders);
}

static void several_loaders_share(void **state) {
    (void)state;
    struct stat status;
    supervisor.own_closer = closer_open();
    make_feed(0, 4);
    shared_blocks_open(&feed);
    assert_true(feed.share_fd < 0 && !feed.share.arenas);
    make_feed(1 << 20, 1);
    shared_blocks_open(&feed);
    assert_true(feed.share_fd < 0 && !feed.share.arenas);
    shared_blocks_close(&feed);
    make_feed(1 << 20, 4);
    shared_blocks_open(&feed);
    assert_true(feed.share_fd >= 0 && feed.share.arenas == 4 && feed.share.blocks == 7);
    assert_int_equal(fstat(feed.share_fd, &status), 0);
    assert_int_equal(status.st_size, feed.share.total_bytes);
    assert_true(feed.share.total_bytes >= 4 << 20);
    shared_blocks_close(&feed);
    assert_int_equal(feed.share_fd, -1);
    closer_leave(supervisor.own_closer);
}

static void the_blocks_of_all_parts_count(void **state) {
    (void)state;
    supervisor.own_closer = closer_open();
    make_feed(1 << 20, 2);
    layout.blocks.count = 0;
    layout.part_count = 2;
    part_layout.blocks.count = 5;
    part.layout = &part_layout;
    dataset.sources = parts;
    shared_blocks_open(&feed);
    assert_int_equal(feed.share.blocks, 10);
    shared_blocks_close(&feed);
    make_feed(1 << 20, 2);
    layout.blocks.count = BLOCK_SHARE_MOST_BLOCKS + 1;
    shared_blocks_open(&feed);
    assert_true(feed.share_fd < 0 && !feed.share.arenas);
    closer_leave(supervisor.own_closer);
}

// As long as a loader is in the feed's list, also if it has been killed, it may still be in its arena.
static void no_two_have_the_same_arena(void **state) {
    (void)state;
    struct loader_process one = {.share_arena = 0}, two = {.share_arena = 1}, more = {.share_arena = 2};
    make_feed(0, 2);
    assert_int_equal(shared_blocks_arena(&feed), feed.share.arenas);
    feed.share.arenas = 2;
    assert_int_equal(shared_blocks_arena(&feed), 0);
    LIST_INSERT_HEAD(&feed.loaders, &one, link);
    assert_int_equal(shared_blocks_arena(&feed), 1);
    LIST_INSERT_HEAD(&feed.loaders, &two, link);
    assert_int_equal(shared_blocks_arena(&feed), 2);
    LIST_INSERT_HEAD(&feed.loaders, &more, link);
    assert_int_equal(shared_blocks_arena(&feed), 2);
    LIST_REMOVE(&one, link);
    assert_int_equal(shared_blocks_arena(&feed), 0);
}

static void limit_descriptors(rlim_t most) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// Those that started meanwhile decode for themselves.
static void a_lack_passes_for_the_next_loader(void **state) {
    struct loader_start start = {0};
    struct rlimit usual;
    (void)state;
    supervisor.own_closer = closer_open();
    make_feed(1 << 20, 4);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    limit_descriptors(0);
    shared_blocks_open(&feed);
    shared_blocks_lend(&feed, &start);
    limit_descriptors(usual.rlim_cur);
    assert_true(start.share_fd < 0 && start.share_arena == start.share->arenas);
    shared_blocks_lend(&feed, &start);
    const int fd = start.share_fd;
    assert_true(fd >= 0 && start.share->arenas == 4 && start.share_arena == 0);
    shared_blocks_lend(&feed, &start);
    assert_int_equal(start.share_fd, fd);
    shared_blocks_close(&feed);
    closer_leave(supervisor.own_closer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_loaders_share),
        cmocka_unit_test(the_blocks_of_all_parts_count),
        cmocka_unit_test(no_two_have_the_same_arena),
        cmocka_unit_test(a_lack_passes_for_the_next_loader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
