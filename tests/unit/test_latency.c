// Buckets and sums of latencies.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "shm/latency.h"

static void test_a_latency_falls_between_its_buckets_ends(void **state) {
    (void)state;
    assert_int_equal(latency_bucket(0), 0);
    assert_int_equal(latency_bucket(UINT64_MAX), LATENCY_BUCKETS - 1);
    for (uint32_t bucket = 0; bucket + 1 < LATENCY_BUCKETS; bucket++) {
        const uint64_t end = latency_bucket_end(bucket);
        assert_int_equal(latency_bucket(end - 1), bucket);
        assert_int_equal(latency_bucket(end), bucket + 1);
        assert_true(bucket == 0 || end <= 3 * latency_bucket_end(bucket - 1) / 2);
    }
    assert_int_equal(latency_bucket(latency_bucket_end(LATENCY_BUCKETS - 1)), LATENCY_BUCKETS - 1);
}

static void test_latencies_are_moved_and_cleared(void **state) {
    (void)state;
    static struct latency from[2], to[2];
    latency_add(&from[0], 1000, 3);
    latency_add(&from[1], 1000000, 4);
    latency_add(&to[1], 1000000, 5);
    latencies_move(to, from, 2);
    assert_int_equal(to[0].buckets[latency_bucket(1000)], 3);
    assert_int_equal(to[1].buckets[latency_bucket(1000000)], 9);
    assert_int_equal(to[0].sum_ns, 3000);
    assert_int_equal(to[1].sum_ns, 9000000);
    assert_int_equal(from[0].sum_ns, 0);
    assert_int_equal(from[0].buckets[latency_bucket(1000)], 0);
    assert_int_equal(from[1].buckets[latency_bucket(1000000)], 0);
    latencies_clear(to, 2);
    assert_int_equal(to[0].sum_ns, 0);
    assert_int_equal(to[0].buckets[latency_bucket(1000)], 0);
    assert_int_equal(to[1].buckets[latency_bucket(1000000)], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_latency_falls_between_its_buckets_ends),
        cmocka_unit_test(test_latencies_are_moved_and_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
