// What one user may have.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/supervisor/feeds/quota.h"
#include "tests/unit/config_fixture.h"

static void room_is_left_for_another_user(void **state) {
    (void)state;
    assert_int_equal(quota_feeds(config, OTHER), 48);
    assert_int_equal(quota_ring_memory(config, OTHER), 3ull << 30);
    assert_int_equal(quota_device_memory(config, OTHER), 3ull << 30);
    assert_int_equal(quota_cache_memory(config, 100, OTHER), 75);
    config->ring_memory = 10;
    assert_int_equal(quota_ring_memory(config, OTHER), 8);
    config->device_memory = 0;
    assert_int_equal(quota_device_memory(config, OTHER), 0);
}

static void whoever_runs_the_daemon_may_have_all(void **state) {
    (void)state;
    const uid_t trusted[] = {0, geteuid()};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(quota_feeds(config, trusted[i]), 64);
        assert_int_equal(quota_ring_memory(config, trusted[i]), config->ring_memory);
        assert_int_equal(quota_device_memory(config, trusted[i]), config->device_memory);
        assert_int_equal(quota_view_memory(config, trusted[i]), config->view_memory);
        assert_int_equal(quota_cache_memory(config, 100, trusted[i]), 100);
    }
}

static void what_is_configured_is_for_everybody(void **state) {
    (void)state;
    const uid_t users[] = {0, geteuid(), OTHER};
    config->user_feeds = 64;
    config->user_ring_memory = 5;
    config->user_device_memory = 7;
    config->user_view_memory = 9;
    config->user_cache_memory = 11;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(quota_feeds(config, users[i]), 64);
        assert_int_equal(quota_ring_memory(config, users[i]), 5);
        assert_int_equal(quota_device_memory(config, users[i]), 7);
        assert_int_equal(quota_view_memory(config, users[i]), 9);
        assert_int_equal(quota_cache_memory(config, 100, users[i]), 11);
    }
}

// Feeds with many loaders each run out of records for loaders first.
static void loaders_count_too(void **state) {
    (void)state;
    static const struct {
        uint64_t loaders, all, share;
    } cases[] = {{1, 64, 48}, {8, 64, 48}, {9, 56, 42}, {16, 32, 24}, {64, 8, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config->loaders = cases[i].loaders;
        assert_int_equal(quota_all_feeds(config), cases[i].all);
        assert_int_equal(quota_feeds(config, 0), cases[i].all);
        assert_int_equal(quota_feeds(config, OTHER), cases[i].share);
    }
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_config, end_config)
    const struct CMUnitTest tests[] = {
        CASE(room_is_left_for_another_user),
        CASE(whoever_runs_the_daemon_may_have_all),
        CASE(what_is_configured_is_for_everybody),
        CASE(loaders_count_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
