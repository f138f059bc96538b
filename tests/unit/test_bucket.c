// Token buckets: a burst, then a rate, whatever steps the time is looked at in.
#include "base/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"

#define BEGIN (1000 * NS_PER_S)

// How many tokens can be taken at that time.
static uint32_t take_all(struct bucket *bucket, uint64_t now) {
    uint32_t count = 0;
    while (count < 100000 && bucket_take(bucket, now))
        count++;
    return count;
}

static void a_new_bucket_is_full(void **state) {
    struct bucket bucket;
    (void)state;
    bucket_init(&bucket, 20, 100, BEGIN);
    assert_int_equal(take_all(&bucket, BEGIN), 100);
    assert_false(bucket_take(&bucket, BEGIN));
}

static void tokens_come_back_at_the_rate(void **state) {
    struct bucket bucket;
    (void)state;
    bucket_init(&bucket, 20, 100, BEGIN);
    take_all(&bucket, BEGIN);
    assert_false(bucket_take(&bucket, BEGIN + 49 * NS_PER_MS));
    assert_true(bucket_take(&bucket, BEGIN + 50 * NS_PER_MS));
    assert_false(bucket_take(&bucket, BEGIN + 50 * NS_PER_MS));
    assert_int_equal(take_all(&bucket, BEGIN + 50 * NS_PER_MS + NS_PER_S), 20);
}

static void a_pause_fills_it_and_no_more(void **state) {
    struct bucket bucket;
    (void)state;
    bucket_init(&bucket, 20, 100, BEGIN);
    take_all(&bucket, BEGIN);
    assert_int_equal(take_all(&bucket, BEGIN + 3600 * NS_PER_S), 100);
    bucket_init(&bucket, 20, 100, BEGIN);
    assert_int_equal(take_all(&bucket, BEGIN + 3600 * NS_PER_S), 100);
    assert_int_equal(take_all(&bucket, UINT64_MAX / 2), 100);
}

// Looking often must not lose the fractions of tokens that each look finds.
static void a_caller_that_never_stops_asking_gets_the_rate(void **state) {
    struct bucket bucket;
    uint32_t taken = 0;
    (void)state;
    bucket_init(&bucket, 1000, 500, BEGIN);
    take_all(&bucket, BEGIN);
    for (uint64_t now = BEGIN; now <= BEGIN + 10 * NS_PER_S; now += 333 * NS_PER_US)
        taken += bucket_take(&bucket, now);
    assert_in_range(taken, 9999, 10000);
}

static void full_when_all_has_come_back(void **state) {
    struct bucket bucket;
    (void)state;
    bucket_init(&bucket, 20, 100, BEGIN);
    assert_true(bucket_is_full(&bucket, BEGIN));
    assert_true(bucket_take(&bucket, BEGIN));
    assert_false(bucket_is_full(&bucket, BEGIN + 49 * NS_PER_MS));
    assert_true(bucket_is_full(&bucket, BEGIN + 50 * NS_PER_MS));
    take_all(&bucket, BEGIN + 50 * NS_PER_MS);
    assert_false(bucket_is_full(&bucket, BEGIN + 5049 * NS_PER_MS));
    assert_true(bucket_is_full(&bucket, BEGIN + 5050 * NS_PER_MS));
    take_all(&bucket, BEGIN + 5050 * NS_PER_MS);
    assert_true(bucket_is_full(&bucket, UINT64_MAX));
}

static void the_smallest_and_the_highest_rate(void **state) {
    struct bucket bucket;
    (void)state;
    bucket_init(&bucket, 1, 1, BEGIN);
    assert_int_equal(take_all(&bucket, BEGIN), 1);
    assert_int_equal(take_all(&bucket, BEGIN + NS_PER_S - 1), 0);
    assert_int_equal(take_all(&bucket, BEGIN + NS_PER_S), 1);
    bucket_init(&bucket, NS_PER_S, 10, BEGIN);
    assert_int_equal(take_all(&bucket, BEGIN), 10);
    assert_int_equal(take_all(&bucket, BEGIN + 3), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_bucket_is_full),
        cmocka_unit_test(tokens_come_back_at_the_rate),
        cmocka_unit_test(a_pause_fills_it_and_no_more),
        cmocka_unit_test(a_caller_that_never_stops_asking_gets_the_rate),
        cmocka_unit_test(full_when_all_has_come_back),
        cmocka_unit_test(the_smallest_and_the_highest_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
