// Samples that end loaders: suspected once, condemned the second time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/scope.h"
#include "daemon/supervisor/processes/condemned.h"
#include "shm/stats.h"

static void test_the_second_time(void **state) {
    (void)state;
    struct condemned condemned = {0};
    assert_int_equal(condemned_hear(&condemned, 0), SAMPLE_SUSPECTED);
    assert_int_equal(condemned_hear(&condemned, 7), SAMPLE_SUSPECTED);
    assert_int_equal(condemned.count, 0);
    assert_int_equal(condemned_hear(&condemned, 0), SAMPLE_CONDEMNED);
    assert_int_equal(condemned_hear(&condemned, 0), SAMPLE_SUSPECTED); // by a loader that had begun before
    assert_int_equal(condemned_hear(&condemned, 7), SAMPLE_CONDEMNED);
    assert_int_equal(condemned.count, 2);
    assert_int_equal(condemned.samples[1], 7);
}

static void test_old_suspects_are_forgotten(void **state) {
    (void)state;
    struct condemned condemned = {0};
    for (uint64_t i = 0; i <= CONDEMNED_SUSPECTS; i++)
        assert_int_equal(condemned_hear(&condemned, i), SAMPLE_SUSPECTED);
    assert_int_equal(condemned_hear(&condemned, 1), SAMPLE_CONDEMNED);
    assert_int_equal(condemned_hear(&condemned, 0), SAMPLE_SUSPECTED);
}

static void test_one_too_many(void **state) {
    (void)state;
    struct condemned condemned = {0};
    for (uint64_t i = 0; i < STATS_CONDEMNED; i++) {
        assert_int_equal(condemned_hear(&condemned, i), SAMPLE_SUSPECTED);
        assert_int_equal(condemned_hear(&condemned, i), SAMPLE_CONDEMNED);
    }
    assert_int_equal(condemned_hear(&condemned, 99), SAMPLE_SUSPECTED);
    assert_int_equal(condemned_hear(&condemned, 99), SAMPLE_ONE_TOO_MANY);
    assert_int_equal(condemned.count, STATS_CONDEMNED);
    assert_int_equal(condemned_hear(&condemned, 0), SAMPLE_SUSPECTED); // is condemned already
}

static void test_kills_at_one_sample(void **state) {
    (void)state;
    struct condemned condemned = {0};
    for (uint32_t i = 0; i < 40; i++) // as an operator kills: now at one sample, now at another
        assert_int_equal(condemned_hear_killed(&condemned, i / 3 % 2), SAMPLE_SUSPECTED);
    for (uint32_t i = 1; i < CONDEMNED_KILLS; i++)
        assert_int_equal(condemned_hear_killed(&condemned, 7), SAMPLE_SUSPECTED);
    assert_int_equal(condemned_hear(&condemned, 7), SAMPLE_SUSPECTED); // kills make no suspect of it
    assert_int_equal(condemned_hear_killed(&condemned, 7), SAMPLE_CONDEMNED);
    assert_int_equal(condemned.samples[0], 7);
}

static void test_what_a_loader_sees(void **state) {
    (void)state;
    AUTO_FREE struct stats_loader *loader = aligned_alloc(_Alignof(struct stats_loader), sizeof *loader);
    assert_non_null(loader);
    *loader = (struct stats_loader){0};
    assert_true(stats_stage_begin(loader, 0));
    assert_int_equal(loader->staged_sample, 1);
    stats_stage_end(loader);
    assert_int_equal(loader->staged_sample, 0);
    stats_condemn(loader, 0);
    stats_condemn(loader, 5);
    assert_false(stats_stage_begin(loader, 0));
    assert_false(stats_stage_begin(loader, 5));
    assert_int_equal(loader->staged_sample, 0);
    assert_true(stats_stage_begin(loader, 4));
    loader->condemned_count = UINT64_MAX; // a loader that has been taken over
    stats_condemn(loader, 6);
    assert_true(stats_stage_begin(loader, 6));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_second_time),    cmocka_unit_test(test_old_suspects_are_forgotten),
        cmocka_unit_test(test_one_too_many),       cmocka_unit_test(test_kills_at_one_sample),
        cmocka_unit_test(test_what_a_loader_sees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
