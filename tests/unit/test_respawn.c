// When processes that died are replaced: tables of deaths and times, for both users' policies.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "daemon/supervisor/processes/transfer_process.h"

#define START (1000 * NS_PER_S) // an arbitrary time

struct death {
    uint64_t lived_ms;
    bool worked;
    uint64_t pause_ms; // until the next may start
    bool given_up;
};

// Each process starts as soon as it may.
static void play(const struct respawn_policy *policy, const struct death *deaths, size_t count) {
    struct respawn respawn;
    uint64_t now = START;
    respawn_init(&respawn, policy, now);
    assert_true(respawn_may_start(&respawn, now));
    for (size_t i = 0; i < count; i++) {
        now += deaths[i].lived_ms * NS_PER_MS;
        respawn_died(&respawn, now, now - deaths[i].lived_ms * NS_PER_MS, deaths[i].worked);
        uint64_t from = now + deaths[i].pause_ms * NS_PER_MS;
        if (deaths[i].pause_ms) {
            assert_int_equal(respawn_wait_until(&respawn), from);
            assert_false(respawn_may_start(&respawn, from - 1));
        }
        assert_true(respawn_may_start(&respawn, from));
        assert_int_equal(respawn_has_given_up(&respawn), deaths[i].given_up);
        now = from;
    }
}

#define PLAY(policy, deaths) play(policy, deaths, COUNT_OF(deaths))

static void loaders_that_fail_to_start_wait_longer_and_longer(void **state) {
    static const struct death deaths[] = {
        {10, false, 0},    {10, false, 200},  {10, false, 400},  {10, false, 800},
        {10, false, 1600}, {10, false, 3200}, {10, false, 6400}, {10, false, 12800, true},
    };
    (void)state;
    PLAY(&loader_respawn_policy, deaths);
}

static void a_loader_that_worked_or_lived_ends_the_row(void **state) {
    static const struct death deaths[] = {
        {10, false, 0},   {10, false, 200}, {10, true, 0},    {999, false, 0},  {999, false, 200},
        {1000, false, 0}, {10, false, 0},   {10, false, 200}, {10, false, 400},
    };
    (void)state;
    PLAY(&loader_respawn_policy, deaths);
}

static void transfer_processes_that_never_get_ready(void **state) {
    static const struct death quick[] = {
        {10, false, 100},         {10, false, 200},         {10, false, 400},
        {10, false, 800},         {10, false, 1600, true},  {10, false, 3200, true},
        {10, false, 6400, true},  {10, false, 12800, true}, {10, false, 25600, true},
        {10, false, 30000, true}, {10, false, 30000, true},
    };
    // A driver that takes long to fail is treated the same.
    static const struct death slow[] = {
        {120000, false, 0},   {120000, false, 200},        {120000, false, 400},
        {120000, false, 800}, {120000, false, 1600, true},
    };
    (void)state;
    PLAY(&transfer_respawn_policy, quick);
    PLAY(&transfer_respawn_policy, slow);
}

static void transfer_processes_that_work_are_replaced_without_limit(void **state) {
    static const struct death deaths[] = {
        {2000, true, 0}, {999, true, 100}, {10, true, 100},  {1000, true, 0},
        {2000, true, 0}, {10, false, 100}, {10, false, 200}, {1000, true, 0},
    };
    (void)state;
    PLAY(&transfer_respawn_policy, deaths);
}

// All die together, as when somebody kills them, again and again.
static void loaders_that_work_and_die_use_up_a_bucket(void **state) {
    struct respawn respawn;
    uint64_t now = START;
    (void)state;
    respawn_init(&respawn, &loader_respawn_policy, now);
    for (int i = 0; i < 32; i++) {
        respawn_died(&respawn, now, now - 5 * NS_PER_S, true);
        assert_true(respawn_may_start(&respawn, now));
    }
    respawn_died(&respawn, now, now - 5 * NS_PER_S, true);
    assert_int_equal(respawn_wait_until(&respawn), now + 250 * NS_PER_MS);
    // One more every 250 ms, and no more than a bucketful however long nothing happens.
    now += 250 * NS_PER_MS;
    respawn_died(&respawn, now, now - 5 * NS_PER_S, true);
    assert_true(respawn_may_start(&respawn, now));
    respawn_died(&respawn, now, now - 5 * NS_PER_S, true);
    assert_false(respawn_may_start(&respawn, now));
    now += 3600 * NS_PER_S;
    for (int i = 0; i < 32; i++) {
        respawn_died(&respawn, now, now - 5 * NS_PER_S, true);
        assert_true(respawn_may_start(&respawn, now));
    }
    respawn_died(&respawn, now, now - 5 * NS_PER_S, true);
    assert_false(respawn_may_start(&respawn, now));
    assert_false(respawn_has_given_up(&respawn));
}

// All loaders of a feed are killed soon after their start: no proof that they cannot start.
static void loaders_that_die_together_fail_once(void **state) {
    struct respawn respawn;
    uint64_t now = START, started;
    (void)state;
    respawn_init(&respawn, &loader_respawn_policy, now);
    for (uint32_t attempt = 1; attempt <= loader_respawn_policy.failures_most; attempt++) {
        assert_false(respawn_has_given_up(&respawn));
        started = now;
        for (int i = 0; i < 64; i++) {
            now += NS_PER_MS;
            respawn_died(&respawn, now, started, false);
        }
        assert_int_equal(respawn.failures, attempt);
        now = max_u64(now, respawn_wait_until(&respawn));
    }
    assert_true(respawn_has_given_up(&respawn));
    assert_true(now - START < 30 * NS_PER_S);
}

// Several loaders of one feed: a late death of another kind does not shorten the wait.
static void a_wait_is_never_shortened(void **state) {
    struct respawn respawn;
    (void)state;
    respawn_init(&respawn, &loader_respawn_policy, START);
    for (int i = 0; i < 6; i++)
        respawn_died(&respawn, START, START, false);
    uint64_t until = respawn_wait_until(&respawn);
    assert_int_equal(until, START + 3200 * NS_PER_MS);
    respawn_died(&respawn, START, START - 5 * NS_PER_S, true);
    assert_int_equal(respawn_wait_until(&respawn), until);
    respawn_unspawned(&respawn, START);
    assert_int_equal(respawn_wait_until(&respawn), until);
}

static void processes_that_cannot_be_spawned(void **state) {
    struct respawn loaders, transfers;
    (void)state;
    respawn_init(&loaders, &loader_respawn_policy, START);
    respawn_init(&transfers, &transfer_respawn_policy, START);
    for (int i = 0; i < 5; i++) {
        uint64_t now = START + (uint64_t)i * NS_PER_S;
        assert_false(respawn_has_given_up(&transfers));
        respawn_unspawned(&loaders, now);
        respawn_unspawned(&transfers, now);
        assert_int_equal(respawn_wait_until(&loaders), now + NS_PER_S);
        assert_int_equal(respawn_wait_until(&transfers), now + NS_PER_S);
    }
    assert_true(respawn_has_given_up(&transfers));
    respawn_worked(&transfers);
    assert_false(respawn_has_given_up(&transfers));
    for (int i = 0; i < 100; i++)
        respawn_unspawned(&loaders, START);
    assert_false(respawn_has_given_up(&loaders));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaders_that_fail_to_start_wait_longer_and_longer),
        cmocka_unit_test(a_loader_that_worked_or_lived_ends_the_row),
        cmocka_unit_test(transfer_processes_that_never_get_ready),
        cmocka_unit_test(transfer_processes_that_work_are_replaced_without_limit),
        cmocka_unit_test(loaders_that_work_and_die_use_up_a_bucket),
        cmocka_unit_test(loaders_that_die_together_fail_once),
        cmocka_unit_test(a_wait_is_never_shortened),
        cmocka_unit_test(processes_that_cannot_be_spawned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
