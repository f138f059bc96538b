// Summaries of sizes: the bound of what some samples have together, against the largest of them one by one.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "daemon/dataset/size_summary.h"

#define SAMPLES 500u

static struct size_summary summary;
static uint64_t sizes[SAMPLES];

static int set_up(void **state) {
    (void)state;
    summary = (struct size_summary){0};
    srand48(7);
    return 0;
}

static int compare(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? 1 : a > b ? -1 : 0;
}

static void add_all(uint64_t most) {
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t size = (uint64_t)lrand48() % (most + 1);
        sizes[i] = i % 50 ? size / 100 : size;
        size_summary_add(&summary, sizes[i]);
    }
    qsort(sizes, SAMPLES, sizeof sizes[0], compare);
}

static void the_most_is_not_too_little_and_hardly_too_much(void **state) {
    (void)state;
    static const uint64_t largest[] = {0, 1, 7, 8, 9, 100, 5000, 1u << 20, 1ull << 31};
    for (size_t k = 0; k < COUNT_OF(largest); k++) {
        summary = (struct size_summary){0};
        add_all(largest[k]);
        uint64_t right = 0;
        for (uint32_t count = 0; count <= SAMPLES; count++) {
            uint64_t most = size_summary_most(&summary, count, false);
            assert_in_range(most, right, right + right / 8);
            assert_int_equal(size_summary_most(&summary, count, true), count * sizes[0]);
            right += count < SAMPLES ? sizes[count] : 0;
        }
        // There are no more.
        assert_int_equal(size_summary_most(&summary, SAMPLES + 9, false),
                         size_summary_most(&summary, SAMPLES, false));
    }
}

static void sizes_of_one_class_are_bounded_by_its_largest(void **state) {
    (void)state;
    static const uint64_t few[] = {64, 71, 72, 79};
    for (size_t i = 0; i < COUNT_OF(few); i++)
        size_summary_add(&summary, few[i]);
    assert_int_equal(size_summary_most(&summary, 1, false), 79);
    assert_int_equal(size_summary_most(&summary, 2, false), 2 * 79);
    assert_int_equal(size_summary_most(&summary, 3, false), 2 * 79 + 71);
}

static void what_exceeds_64_bits_is_the_most(void **state) {
    (void)state;
    uint64_t size = (1ull << 62) - 1;
    for (int i = 0; i < 5; i++)
        size_summary_add(&summary, size);
    assert_int_equal(summary.largest, size);
    assert_int_equal(size_summary_most(&summary, 4, false), 4 * size);
    assert_int_equal(size_summary_most(&summary, 5, false), UINT64_MAX);
    assert_int_equal(size_summary_most(&summary, 4, true), 4 * size);
    assert_int_equal(size_summary_most(&summary, 5, true), UINT64_MAX);
    assert_int_equal(size_summary_usual(&summary, 1u << 16), UINT64_MAX);
    assert_int_equal(size_summary_mean(&summary), 1ull << 62);
}

// A thousand draws of a batch; `count` is small beside the samples, so that repeats do not matter.
static void most_batches_are_usual(void **state) {
    (void)state;
    for (uint32_t i = 0; i < SAMPLES; i++)
        size_summary_add(&summary, sizes[i] = (uint64_t)lrand48() % 20000);
    uint64_t usual = size_summary_usual(&summary, 16), larger = 0;
    for (int batch = 0; batch < 1000; batch++) {
        uint64_t bytes = 0;
        for (int i = 0; i < 16; i++)
            bytes += sizes[lrand48() % SAMPLES];
        larger += bytes > usual;
    }
    assert_in_range(larger, 0, 10);
    assert_in_range(usual, 16 * 10000, 16 * 16000);
}

static void a_few_large_samples_do_not_count_in_every_batch(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 9999; i++)
        size_summary_add(&summary, 1000);
    size_summary_add(&summary, 10000000);
    assert_int_equal(size_summary_mean(&summary), 2000); // rounded up
    assert_in_range(size_summary_usual(&summary, 10), 20000, 30000);
    assert_in_range(size_summary_most(&summary, 10, false), 10009000, 10009000);
}

static void nothing_was_added(void **state) {
    (void)state;
    assert_int_equal(size_summary_most(&summary, 100, false), 0);
    assert_int_equal(size_summary_most(&summary, 100, true), 0);
    assert_int_equal(size_summary_usual(&summary, 100), 0);
    assert_int_equal(size_summary_mean(&summary), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(the_most_is_not_too_little_and_hardly_too_much),
        TEST(sizes_of_one_class_are_bounded_by_its_largest),
        TEST(what_exceeds_64_bits_is_the_most),
        TEST(most_batches_are_usual),
        TEST(a_few_large_samples_do_not_count_in_every_batch),
        TEST(nothing_was_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
