// How much memory caches of decoded images may take.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "daemon/supervisor/feeds/cache_room.h"
#include "tests/unit/config_fixture.h"

static int check(uid_t user, uint64_t mib, uint64_t own, uint64_t all, const char *words) {
    const struct cache_usage usage = {own * MIB, all * MIB};
    struct error error = {0};
    const int err = cache_room_check(config, user, mib * MIB, usage, &error);
    assert_int_equal(cache_room_fits(config, user, mib * MIB, usage), err == 0);
    assert_true(!err == !words && (!words || strstr(error.text, words)));
    return err;
}

static void half_of_the_memory_by_default(void **state) {
    const uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
    (void)state;
    assert_in_range(cache_room_limit(config), 1, machine / 2);
    config->cache_memory = 5;
    assert_int_equal(cache_room_limit(config), 5);
}

static void limits_of_all_and_of_each(void **state) {
    (void)state;
    config->cache_memory = 100 * MIB;
    assert_int_equal(check(OTHER, 75, 0, 25, NULL), 0);
    assert_int_equal(check(OTHER, 76, 0, 0,
                           "it may take 76 MiB of memory; the user's caches in use have 0 MiB of 75 MiB "
                           "(user_cache_memory)"),
                     -ENOSPC);
    assert_int_equal(check(OTHER, 50, 0, 51, "all caches in use have 51 MiB of 100 MiB (cache_memory)"),
                     -ENOSPC);
    assert_int_equal(check(0, 100, 0, 0, NULL), 0);
    assert_int_equal(check(0, 1, 100, 100, "all caches in use have 100 MiB of 100 MiB (cache_memory)"),
                     -ENOSPC);
    assert_int_equal(check(0, UINT64_MAX / MIB, 1, 1, "cache_memory"), -ENOSPC);
    config->user_cache_memory = 10 * MIB;
    assert_int_equal(check(0, 11, 0, 0, "0 MiB of 10 MiB (user_cache_memory)"), -ENOSPC);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_config, end_config)
    const struct CMUnitTest tests[] = {
        CASE(half_of_the_memory_by_default),
        CASE(limits_of_all_and_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
