// Weights as integers: what is refused, and how far from the weights the shares may be. Golden vectors: test_draw.c.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "order/shares.h"

static void test_weights_that_are_none(void **state) {
    (void)state;
    static const struct {
        uint32_t dtype;
        int err;
        uint64_t bits;
    } wrong[] = {
        {DTYPE_I8, -ERANGE, 0x80},
        {DTYPE_I16, -ERANGE, 0xffff},
        {DTYPE_I32, -ERANGE, 0x80000000},
        {DTYPE_I64, -ERANGE, UINT64_MAX},
        {DTYPE_F16, -ERANGE, 0x8001},
        {DTYPE_F32, -ERANGE, 0x80000001},
        {DTYPE_F32, -ERANGE, 0xbf800000},
        {DTYPE_F64, -ERANGE, 0xbff0000000000000},
        {DTYPE_F16, -EOVERFLOW, 0x7c00},
        {DTYPE_F16, -EDOM, 0x7c01},
        {DTYPE_BF16, -EOVERFLOW, 0x7f80},
        {DTYPE_BF16, -EDOM, 0xffff},
        {DTYPE_F32, -EOVERFLOW, 0x7f800000},
        {DTYPE_F32, -EOVERFLOW, 0xff800000},
        {DTYPE_F32, -EDOM, 0x7fc00000},
        {DTYPE_F64, -EOVERFLOW, 0x7ff0000000000000},
        {DTYPE_F64, -EDOM, 0xfff8000000000000},
        {DTYPE_BOOL, -ENOTSUP, 1},
        {DTYPE_C64, -ENOTSUP, 0},
        {DTYPE_C128, -ENOTSUP, 0},
        {0, -ENOTSUP, 0},
        {99, -ENOTSUP, 0},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct weight weight = {77, 77};
        assert_int_equal(weight_decode(wrong[i].dtype, wrong[i].bits, &weight), wrong[i].err);
        assert_true(weight.digits == 77 && weight.exponent == 77);
    }
}

// Each with the largest, the smallest and one between.
static void test_weights(void **state) {
    (void)state;
    static const struct {
        uint32_t dtype;
        uint64_t bits;
        double weight;
    } right[] = {
        {DTYPE_U8, 255, 255},
        {DTYPE_I8, 127, 127},
        {DTYPE_U16, 0xffff, 65535},
        {DTYPE_I16, 0x7fff, 32767},
        {DTYPE_U32, 0xffffffff, 4294967295.0},
        {DTYPE_I32, 0x7fffffff, 2147483647.0},
        {DTYPE_U64, UINT64_C(1) << 63, 0x1p63},
        {DTYPE_I64, UINT64_C(1) << 62, 0x1p62},
        {DTYPE_F16, 0x0001, 0x1p-24},
        {DTYPE_F16, 0x3e00, 1.5},
        {DTYPE_F16, 0x7bff, 65504},
        {DTYPE_BF16, 0x0001, 0x1p-133},
        {DTYPE_BF16, 0x3fc0, 1.5},
        {DTYPE_BF16, 0x7f7f, 0x1.fep127},
        {DTYPE_F32, 0x00000001, 0x1p-149},
        {DTYPE_F32, 0x00800000, 0x1p-126},
        {DTYPE_F32, 0x3fc00000, 1.5},
        {DTYPE_F32, 0x7f7fffff, 0x1.fffffep127},
        {DTYPE_F64, 1, 0x1p-1074},
        {DTYPE_F64, 0x000fffffffffffff, 0x0.fffffffffffffp-1022},
        {DTYPE_F64, 0x3ff8000000000000, 1.5},
        {DTYPE_F64, 0x7fefffffffffffff, 0x1.fffffffffffffp1023},
    };
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        struct weight weight;
        assert_int_equal(weight_decode(right[i].dtype, right[i].bits, &weight), 0);
        assert_true(ldexp((double)weight.digits, weight.exponent) == right[i].weight);
    }
}

static void test_zeros(void **state) {
    (void)state;
    static const struct {
        uint32_t dtype;
        uint64_t bits;
    } zeros[] = {{DTYPE_U64, 0},       {DTYPE_I8, 0},         {DTYPE_F16, 0x8000},
                 {DTYPE_BF16, 0x8000}, {DTYPE_F32, 1u << 31}, {DTYPE_F64, 1ull << 63}};
    for (size_t i = 0; i < COUNT_OF(zeros); i++) {
        struct weight weight = {77, 77};
        assert_int_equal(weight_decode(zeros[i].dtype, zeros[i].bits, &weight), 0);
        assert_int_equal(weight.digits, 0);
    }
    uint64_t words[] = {0, 0x80000000, 0};
    assert_int_equal(shares_sum(DTYPE_F32, words, COUNT_OF(words)), -ENODATA);
    assert_int_equal(words[1], 0x80000000);
}

// Some numbers, the same at every run.
static uint64_t number(uint64_t i) {
    i = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    i ^= i >> 31;
    return i * UINT64_C(0xbf58476d1ce4e5b9) >> 8;
}

// By the bound of order/shares.h, in long doubles.
static void check_error(uint32_t spread, uint64_t count) {
    AUTO_FREE uint64_t *words = calloc(count, sizeof *words);
    AUTO_FREE double *weights = calloc(count, sizeof *weights);
    assert_true(words && weights);
    long double total = 0;
    for (uint64_t i = 0; i < count; i++) {
        weights[i] = ldexp((double)(number(i) >> 4), -(int)(number(i + count) % spread));
        memcpy(&words[i], &weights[i], sizeof weights[i]);
        total += weights[i];
    }
    assert_int_equal(shares_sum(DTYPE_F64, words, count), 0);
    const uint64_t sum = words[count - 1];
    assert_true(sum >= (UINT64_C(1) << 62) - count && sum <= (UINT64_C(1) << 63) + count);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t share = words[i] - (i ? words[i - 1] : 0);
        assert_int_equal(share > 0, weights[i] > 0);
        const long double p = weights[i] / total;
        if (weights[i] == 0)
            continue;
        const long double off = fabsl((long double)share / (long double)sum / p - 1);
        // The last term is what this check itself rounds off.
        if (off > ldexpl((long double)count, -61) + ldexpl(1 / p, -61) + 1e-15L)
            fail_msg("sample %llu of %llu is off by %Lg of its probability %Lg", (unsigned long long)i,
                     (unsigned long long)count, off, p);
    }
}

static void test_the_error_is_within_its_bound(void **state) {
    (void)state;
    static const uint32_t spreads[] = {1, 10, 40, 70, 1000};
    for (size_t i = 0; i < COUNT_OF(spreads); i++) {
        check_error(spreads[i], 1);
        check_error(spreads[i], 3);
        check_error(spreads[i], 5000);
    }
    check_error(20, 1 << 18);
}

// As the header promises: then the ratios are those of the weights.
static void test_integers_are_exact(void **state) {
    (void)state;
    for (uint64_t most = 1; most < 62; most++) {
        uint64_t words[3] = {UINT64_C(1) << most, 3, (UINT64_C(1) << most) - 1}, weights[3], shift = 0;
        memcpy(weights, words, sizeof weights);
        assert_int_equal(shares_sum(most % 2 ? DTYPE_I64 : DTYPE_U64, words, 3), 0);
        while (weights[0] << shift < words[0])
            shift++;
        assert_true(words[0] == weights[0] << shift && words[1] - words[0] == weights[1] << shift &&
                    words[2] - words[1] == weights[2] << shift);
    }
}

static void test_what_does_not_count_is_not_there(void **state) {
    (void)state;
    const double weights[] = {1e300, 0, 3, 5e-324};
    const uint32_t none[] = {0, 7, 0, 0}, small[] = {0, 7, 0, 2}, once[] = {1, 1, 1, 1};
    uint64_t words[4], same[4];
    memcpy(words, weights, sizeof words);
    assert_int_equal(shares_sum_times(DTYPE_F64, words, none, 4), -ENODATA);
    assert_memory_equal(words, weights, sizeof words);
    assert_int_equal(shares_sum_times(DTYPE_F64, words, small, 4), 0);
    assert_true(!words[0] && !words[1] && !words[2] && words[3] >= UINT64_C(1) << 62);
    memcpy(words, weights, sizeof words);
    memcpy(same, weights, sizeof same);
    assert_int_equal(shares_sum_times(DTYPE_F64, words, once, 4), 0);
    assert_int_equal(shares_sum(DTYPE_F64, same, 4), 0);
    assert_memory_equal(words, same, sizeof words);
}

// As if the products stood there. Those of floats here are exact as floats, too, and far apart.
static void test_products(void **state) {
    (void)state;
    enum {
        COUNT = 500
    };
    uint64_t integers[COUNT], floats[COUNT], products[2][COUNT];
    uint32_t times[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        times[i] = (uint32_t)(number(i) % (i % 2 ? SHARES_MOST + 1 : 4));
        integers[i] = number(i + COUNT) >> 30;
        products[0][i] = integers[i] * times[i];
        const double weight = ldexp((double)(integers[i] >> 2), (int)(number(i + 3 * COUNT) % 200) - 100);
        const double product = weight * times[i];
        memcpy(&floats[i], &weight, sizeof weight);
        memcpy(&products[1][i], &product, sizeof product);
    }
    assert_int_equal(shares_sum_times(DTYPE_U64, integers, times, COUNT), 0);
    assert_int_equal(shares_sum(DTYPE_U64, products[0], COUNT), 0);
    assert_memory_equal(integers, products[0], sizeof integers);
    assert_int_equal(shares_sum_times(DTYPE_F64, floats, times, COUNT), 0);
    assert_int_equal(shares_sum(DTYPE_F64, products[1], COUNT), 0);
    assert_memory_equal(floats, products[1], sizeof floats);
}

// Those of 91 digits.
static void test_the_largest_products(void **state) {
    (void)state;
    uint64_t words[] = {UINT64_MAX, UINT64_MAX - 1, 1};
    const uint32_t times[] = {SHARES_MOST, SHARES_MOST, 1};
    const uint64_t unit = UINT64_C(1) << 62; // the sum is nearly 2^92, and is given 63 digits
    assert_int_equal(shares_sum_times(DTYPE_U64, words, times, 3), 0);
    assert_true(words[0] == unit - 1 && words[1] == 2 * unit - 2 && words[2] == words[1] + 1);
}

// However much larger another one is.
static void test_what_is_above_zero_can_come(void **state) {
    (void)state;
    const double weights[] = {1e300, 0, 5e-324};
    uint64_t words[3];
    memcpy(words, weights, sizeof words);
    assert_int_equal(shares_sum(DTYPE_F64, words, 3), 0);
    assert_true(words[1] == words[0] && words[2] == words[1] + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_weights_that_are_none),
        cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_the_error_is_within_its_bound),
        cmocka_unit_test(test_integers_are_exact),
        cmocka_unit_test(test_what_does_not_count_is_not_there),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_the_largest_products),
        cmocka_unit_test(test_what_is_above_zero_can_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
