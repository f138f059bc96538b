// Elements of every dtype, and what is said of many of them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "client/ctl/element.h"

// As people see it, and as JSON.
static void reads(enum feed_dtype dtype, const void *bytes, const char *text, const char *json) {
    uint8_t unaligned[33] = {0};
    char found[ELEMENT_TEXT];
    memcpy(unaligned + 1 + feed_dtype_bytes(dtype), bytes, feed_dtype_bytes(dtype));
    struct element element = element_at(dtype, unaligned + 1, 1);
    assert_string_equal(element_format(&element, found), text);
    json_t *value = element_json(&element);
    char *dumped AUTO_FREE = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17) | JSON_COMPACT);
    assert_string_equal(dumped, json);
    json_decref(value);
}

#define READS(dtype, type, value, text, json) reads(dtype, &(type){value}, text, json)

static void every_dtype_is_read(void **state) {
    (void)state;
    READS(FEED_BOOL, uint8_t, 1, "true", "true");
    READS(FEED_BOOL, uint8_t, 0, "false", "false");
    READS(FEED_BOOL, uint8_t, 7, "true", "true"); // no file should have it
    READS(FEED_U8, uint8_t, 255, "255", "255");
    READS(FEED_I8, int8_t, -128, "-128", "-128");
    READS(FEED_U16, uint16_t, 65535, "65535", "65535");
    READS(FEED_I16, int16_t, -32768, "-32768", "-32768");
    READS(FEED_U32, uint32_t, UINT32_MAX, "4294967295", "4294967295");
    READS(FEED_I32, int32_t, INT32_MIN, "-2147483648", "-2147483648");
    READS(FEED_U64, uint64_t, INT64_MAX, "9223372036854775807", "9223372036854775807");
    READS(FEED_U64, uint64_t, UINT64_MAX, "18446744073709551615", "\"18446744073709551615\"");
    READS(FEED_I64, int64_t, INT64_MIN, "-9223372036854775808", "-9223372036854775808");
    READS(FEED_F32, float, 0.5f, "0.5", "0.5");
    READS(FEED_F32, float, 0.1f, "0.1", "0.10000000149011612");
    READS(FEED_F64, double, 1e-300, "1e-300", "1e-300");
    READS(FEED_F64, double, -INFINITY, "-inf", "\"-Infinity\"");
    READS(FEED_F64, double, -NAN, "nan", "\"NaN\"");
    reads(FEED_C64, (float[]){1, -2}, "1-2i", "[1.0,-2.0]");
    reads(FEED_C128, (double[]){-0.25, NAN}, "-0.25+nani", "[-0.25,\"NaN\"]");
}

static void short_floats_are_read(void **state) {
    (void)state;
    static const struct {
        enum feed_dtype dtype;
        uint16_t bits;
        double value;
    } cases[] = {
        {FEED_F16, 0x3c00, 1},         {FEED_F16, 0xc000, -2},        {FEED_F16, 0x7bff, 65504},
        {FEED_F16, 0x0400, 0x1p-14},   {FEED_F16, 0x03ff, 0x3ffp-24}, {FEED_F16, 0x0001, 0x1p-24},
        {FEED_F16, 0x8001, -0x1p-24},  {FEED_F16, 0x7c00, INFINITY},  {FEED_F16, 0xfc00, -INFINITY},
        {FEED_F16, 0x3555, 0x555p-12}, {FEED_BF16, 0x3f80, 1},        {FEED_BF16, 0xc000, -2},
        {FEED_BF16, 0x7f80, INFINITY}, {FEED_BF16, 0x7f7f, 0xffp120}, {FEED_BF16, 0x0001, 0x1p-133},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct element element = element_at(cases[i].dtype, &cases[i].bits, 0);
        assert_true(element.kind == ELEMENT_REAL && element.real == cases[i].value);
    }
    struct element element = element_at(FEED_F16, &(uint16_t){0x7e00}, 0);
    assert_true(isnan(element.real));
    element = element_at(FEED_BF16, &(uint16_t){0x7fc0}, 0);
    assert_true(isnan(element.real));
}

static void integers_are_compared_with_all_digits(void **state) {
    (void)state;
    uint64_t large[] = {UINT64_MAX - 1, UINT64_MAX, UINT64_MAX - 2};
    struct summary summary = summarise(FEED_U64, large, COUNT_OF(large));
    assert_true(summary.least.whole == UINT64_MAX - 2 && summary.most.whole == UINT64_MAX);
    int64_t both[] = {3, INT64_MIN, INT64_MAX, -4};
    summary = summarise(FEED_I64, both, COUNT_OF(both));
    assert_true(summary.least.integer == INT64_MIN && summary.most.integer == INT64_MAX);
    assert_true(summary.mean.real == -0.5);
}

static void what_is_not_finite_is_counted_and_left_out(void **state) {
    (void)state;
    float values[] = {NAN, 2, -INFINITY, 4, INFINITY, -1, NAN, NAN};
    struct summary summary = summarise(FEED_F32, values, COUNT_OF(values));
    assert_int_equal(summary.nans, 3);
    assert_int_equal(summary.infinite, 2);
    assert_int_equal(summary_finite(&summary), 3);
    assert_true(summary.least.real == -1 && summary.most.real == 4);
    assert_true(fabs(summary.mean.real - 5.0 / 3) < 1e-15);
    summary = summarise(FEED_F32, values, 1);
    assert_int_equal(summary_finite(&summary), 0);
    float pairs[] = {3, 4, NAN, INFINITY, 0, -1, INFINITY, 0};
    summary = summarise(FEED_C64, pairs, 4);
    assert_true(summary.nans == 1 && summary.infinite == 1);
    assert_true(element_number(&summary.most) == 5 && element_number(&summary.least) == 1);
    assert_true(summary.mean.kind == ELEMENT_COMPLEX);
    assert_true(summary.mean.real == 1.5 && summary.mean.imaginary == 1.5);
}

static void sums_do_not_overflow(void **state) {
    (void)state;
    double values[] = {1.5e308, 1.5e308, 1.5e308};
    struct summary summary = summarise(FEED_F64, values, COUNT_OF(values));
    assert_true(summary.mean.real == 1.5e308);
    uint64_t large[] = {UINT64_MAX, UINT64_MAX};
    summary = summarise(FEED_U64, large, COUNT_OF(large));
    assert_true(summary.mean.real == (double)UINT64_MAX);
}

static void truths_are_counted(void **state) {
    (void)state;
    uint8_t values[] = {0, 1, 1, 0, 1};
    struct summary summary = summarise(FEED_BOOL, values, COUNT_OF(values));
    assert_int_equal(summary.truths, 3);
    assert_true(summary.mean.real == 0.6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_is_read),
        cmocka_unit_test(short_floats_are_read),
        cmocka_unit_test(integers_are_compared_with_all_digits),
        cmocka_unit_test(what_is_not_finite_is_counted_and_left_out),
        cmocka_unit_test(sums_do_not_overflow),
        cmocka_unit_test(truths_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
