// The permutation as a contract: golden vectors, and that it is one for every number of samples. How random it
// looks is test_order_quality's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "order/order.h"
#include "order/order_kernels.h"
#include "tests/unit/order_vectors.h"

static struct order make(uint64_t samples, uint64_t seed, uint64_t epoch) {
    struct order order;
    order_init(&order, ORDER_FEISTEL_1, samples, seed, epoch);
    return order;
}

static void fill(uint64_t samples, uint64_t seed, uint64_t epoch, uint64_t *values) {
    struct order order = make(samples, seed, epoch);
    order_samples(&order, 0, (uint32_t)samples, values);
}

static uint64_t *allocate(size_t count) {
    uint64_t *words = calloc(count, sizeof *words);
    assert_non_null(words);
    return words;
}

static void test_golden_samples(void **state) {
    (void)state;
    for (size_t at = 0; at < COUNT_OF(sample_vectors); at++) {
        struct order order =
            make(sample_vectors[at].samples, sample_vectors[at].seed, sample_vectors[at].epoch);
        assert_int_equal(order_sample(&order, sample_vectors[at].position), sample_vectors[at].sample);
    }
}

static void test_golden_epochs(void **state) {
    (void)state;
    for (size_t at = 0; at < COUNT_OF(epoch_vectors); at++) {
        uint64_t values[300];
        assert_in_range(epoch_vectors[at].samples, 1, COUNT_OF(values));
        fill(epoch_vectors[at].samples, epoch_vectors[at].seed, epoch_vectors[at].epoch, values);
        assert_memory_equal(values, epoch_vectors[at].order, epoch_vectors[at].samples * sizeof *values);
    }
    for (size_t at = 0; at < COUNT_OF(digest_vectors); at++) {
        AUTO_FREE uint64_t *values = allocate(digest_vectors[at].samples);
        fill(digest_vectors[at].samples, digest_vectors[at].seed, digest_vectors[at].epoch, values);
        uint64_t digest = 0;
        for (uint64_t p = 0; p < digest_vectors[at].samples; p++)
            digest = digest * 0x5851f42d4c957f2du + values[p] + 1;
        assert_int_equal(digest, digest_vectors[at].digest);
    }
}

static void test_sequential_is_identity(void **state) {
    (void)state;
    struct order order;
    uint64_t values[5];
    order_init(&order, ORDER_SEQUENTIAL, 1000, 7, 3);
    order_samples(&order, 997, 5, values);
    const uint64_t expected[] = {997, 998, 999, UINT64_MAX, UINT64_MAX};
    assert_memory_equal(values, expected, sizeof expected);
    assert_int_equal(order_sample(&order, 42), 42);
    assert_int_equal(order_sample(&order, 1000), UINT64_MAX);
}

static void test_outside_is_no_sample(void **state) {
    (void)state;
    struct order order = make(10, 7, 0);
    uint64_t values[70];
    order_samples(&order, 8, 70, values);
    assert_true(values[0] < 10 && values[1] < 10);
    for (size_t at = 2; at < COUNT_OF(values); at++)
        assert_int_equal(values[at], UINT64_MAX);
    assert_int_equal(order_sample(&order, 10), UINT64_MAX);
    assert_int_equal(order_sample(&order, UINT64_MAX), UINT64_MAX);
    order_samples(&order, UINT64_MAX, 3, values);
    assert_int_equal(values[0], UINT64_MAX);
}

static void test_any_cut_gives_the_same(void **state) {
    (void)state;
    enum {
        SAMPLES = 1000
    };
    uint64_t whole[SAMPLES], part[SAMPLES];
    struct order order = make(SAMPLES, 5, 9);
    order_samples(&order, 0, SAMPLES, whole);
    for (uint32_t count = 1; count < 150; count++)
        for (uint32_t first = 0; first + count <= SAMPLES; first += 89) {
            part[count] = 12345; // the next word must not change
            order_samples(&order, first, count, part);
            assert_memory_equal(part, whole + first, count * sizeof *part);
            assert_int_equal(part[count], 12345);
        }
    for (uint64_t p = 0; p < SAMPLES; p++)
        assert_int_equal(order_sample(&order, p), whole[p]);
}

// In a domain of each size, for values that fill all of its bits.
static void assert_kernel(const struct order_kernel *kernel, uint32_t bits) {
    struct order order = make(bits == 64 ? UINT64_MAX : UINT64_C(1) << bits, bits, 3);
    uint64_t values[ORDER_LANES_MOST], wanted[ORDER_LANES_MOST];
    assert_in_range(kernel->lanes, 1, ORDER_LANES_MOST);
    for (uint32_t i = 0; i < kernel->lanes; i++) {
        values[i] = (i * UINT64_C(0x9e3779b97f4a7c15) ^ UINT64_MAX) >> (64 - bits);
        wanted[i] = order_permute(&order, values[i]);
    }
    kernel->permute(&order, values);
    assert_memory_equal(values, wanted, kernel->lanes * sizeof *values);
}

static void test_kernels_agree(void **state) {
    (void)state;
    const struct order_kernel *kernel;
    for (uint32_t i = 0; (kernel = order_kernel(i)); i++)
        for (uint32_t bits = 8; bits <= 64; bits++)
            assert_kernel(kernel, bits);
}

static void assert_permutation(uint64_t samples, uint64_t seed, uint64_t epoch) {
    AUTO_FREE uint64_t *values = allocate(samples);
    AUTO_FREE uint64_t *seen = allocate(samples);
    fill(samples, seed, epoch, values);
    for (uint64_t p = 0; p < samples; p++) {
        assert_true(values[p] < samples);
        assert_int_equal(seen[values[p]]++, 0);
    }
}

static void test_permutation(void **state) {
    (void)state;
    for (uint64_t samples = 1; samples <= 300; samples++)
        assert_permutation(samples, samples * 31, samples % 7);
    static const uint64_t sizes[] = {509,   512,   513,   997,   1000,  4095,  50000,
                                     60000, 65521, 65535, 65536, 65537, 131071};
    for (size_t at = 0; at < COUNT_OF(sizes); at++) {
        assert_permutation(sizes[at], 7, at);
        assert_permutation(sizes[at], UINT64_MAX - at, UINT64_MAX);
    }
}

// ---- large epochs, by sampling: an inverse proves that the sampled positions collide with no other one

static uint64_t scramble(uint64_t half, uint64_t key, uint32_t bits) {
    uint64_t word = (half + key) * 0xbf58476d1ce4e5b9u;
    return ((word ^ (word >> 32)) * 0x94d049bb133111ebu) >> (64 - bits);
}

static uint64_t position_of(const struct order *order, uint64_t sample) {
    const uint64_t left_mask = (UINT64_C(1) << order->left_bits) - 1;
    const uint64_t right_mask = (UINT64_C(1) << order->right_bits) - 1;
    do {
        uint64_t left = sample >> order->right_bits, right = sample & right_mask;
        for (size_t round = COUNT_OF(order->keys); round > 0; round -= 2) {
            right = (right - scramble(left, order->keys[round - 1], order->right_bits)) & right_mask;
            left = (left - scramble(right, order->keys[round - 2], order->left_bits)) & left_mask;
        }
        sample = left << order->right_bits | right;
    } while (sample >= order->samples);
    return sample;
}

static int compare(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void assert_bijective_by_sampling(uint64_t samples) {
    enum {
        COUNT = 100000
    };
    struct order order = make(samples, 11, 4);
    AUTO_FREE uint64_t *values = allocate(COUNT);
    order_samples(&order, samples - COUNT, COUNT, values);
    for (uint64_t at = 0; at < COUNT; at++) {
        assert_true(values[at] < samples);
        assert_int_equal(position_of(&order, values[at]), samples - COUNT + at);
    }
    qsort(values, COUNT, sizeof *values, compare);
    for (uint64_t at = 1; at < COUNT; at++)
        assert_true(values[at - 1] < values[at]);
    // Every sample has a position: sampled over the whole range, its position leads back to it.
    for (uint64_t at = 0; at < COUNT; at++) {
        const uint64_t sample = samples / COUNT * at + at % 7;
        const uint64_t position = position_of(&order, sample);
        assert_true(position < samples);
        assert_int_equal(order_sample(&order, position), sample);
    }
}

static void test_large_is_bijective(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1000000007u,
                                     UINT64_C(1) << 32,
                                     (UINT64_C(1) << 32) + 15,
                                     (UINT64_C(1) << 45) + 59,
                                     (UINT64_C(1) << 62) + 1,
                                     (UINT64_C(1) << 63) - 25,
                                     UINT64_C(1) << 63};
    for (size_t at = 0; at < COUNT_OF(sizes); at++)
        assert_bijective_by_sampling(sizes[at]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_samples),         cmocka_unit_test(test_golden_epochs),
        cmocka_unit_test(test_sequential_is_identity), cmocka_unit_test(test_outside_is_no_sample),
        cmocka_unit_test(test_any_cut_gives_the_same), cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_large_is_bijective),     cmocka_unit_test(test_kernels_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
