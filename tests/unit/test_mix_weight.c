// The weights of a mixture as text: golden vectors, what is refused and with which sentence, and their ratio in whole
// numbers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "order/mix.h"
#include "order/mix_weight.h"
#include "tests/unit/mix_vectors.h"

static struct mix_weight parse(const char *text) {
    struct mix_weight weight = {0};
    struct error error = {0};
    assert_int_equal(mix_weight_parse(text, &weight, &error), 0);
    return weight;
}

static void assert_refused(const char *text, int err, const char *sentence) {
    struct mix_weight weight = {.digits = 7, .exponent = 7};
    struct error error = {0};
    assert_int_equal(mix_weight_parse(text, &weight, &error), err);
    assert_string_equal(error.text, sentence);
    assert_true(weight.digits == 7 && weight.exponent == 7);
}

static void test_golden_texts(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(weight_vectors); i++) {
        const struct mix_weight weight = parse(weight_vectors[i].text);
        assert_int_equal(weight.digits, weight_vectors[i].digits);
        assert_int_equal(weight.exponent, weight_vectors[i].exponent);
    }
}

static void test_no_number(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",     "x",   ".",   "e3",    "-1",    "+1",  " 1", "1 ",    "1,5", "1e",  "1e+", "1e-", "1e1.5",
        "0x10", "inf", "nan", "1.2.3", "1e3e3", "1_0", "1%", "1e--1", "1f",  ".e1", "1..", "１"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char sentence[100];
        snprintf(sentence, sizeof sentence, "found '%s', wanted a positive number such as 3, 0.25 or 1e-3",
                 texts[i]);
        assert_refused(texts[i], -EINVAL, sentence);
    }
    assert_refused(
        "12345678901234567890123456789012345678901234567890x", -EINVAL,
        "found '1234567890123456789012345678901234567890', wanted a positive number such as 3, 0.25 or "
        "1e-3");
}

static void test_zero(void **state) {
    (void)state;
    static const char *const texts[] = {"0", "0.0", "000", "0e7", ".0", "0.", "0e-99999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char sentence[120];
        snprintf(sentence, sizeof sentence,
                 "found '%s', wanted a number above zero (leave out a source that is not to be drawn)",
                 texts[i]);
        assert_refused(texts[i], -EINVAL, sentence);
    }
}

static void test_limits(void **state) {
    (void)state;
    assert_int_equal(parse("999999999999999999").digits, 999999999999999999u);
    assert_refused("1234567890123456789", -ERANGE,
                   "found '1234567890123456789', which has 19 significant digits, wanted at most 18");
    assert_refused("0.10000000000000000001", -ERANGE,
                   "found '0.10000000000000000001', which has 20 significant digits, wanted at most 18");
    assert_int_equal(parse("1e1000").exponent, 1000);
    assert_int_equal(parse("0.001e-997").exponent, -1000);
    static const char *const texts[] = {"1e1001", "10e1000", "0.1e-1000", "1e9999999999999999999999",
                                        "1e-9999999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char sentence[120];
        snprintf(sentence, sizeof sentence, "found '%s', wanted a number with an exponent from -1000 to 1000",
                 texts[i]);
        assert_refused(texts[i], -ERANGE, sentence);
    }
}

static void test_golden_ratios(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ratio_vectors); i++) {
        struct mix_weight weights[5];
        uint32_t count = 0, whole[5] = {0};
        struct error error = {0};
        for (; count < 5 && ratio_vectors[i].texts[count]; count++)
            weights[count] = parse(ratio_vectors[i].texts[count]);
        assert_int_equal(mix_weights_scale(weights, count, whole, &error), 0);
        assert_memory_equal(whole, ratio_vectors[i].whole, sizeof whole);
    }
}

static void assert_too_large(const char *one, const char *other, const char *total) {
    const struct mix_weight weights[] = {parse(one), parse(other)};
    uint32_t whole[2] = {5, 5};
    struct error error = {0};
    char sentence[200];
    snprintf(sentence, sizeof sentence,
             "found weights whose smallest whole numbers have a total of %s, wanted at most 1000000000: "
             "round them "
             "to fewer digits",
             total);
    assert_int_equal(mix_weights_scale(weights, 2, whole, &error), -ERANGE);
    assert_string_equal(error.text, sentence);
    assert_true(whole[0] == 5 && whole[1] == 5);
}

static void test_too_large(void **state) {
    (void)state;
    const char *beyond = "more than 18446744073709551615";
    assert_too_large("1", "1000000000", "1000000001");
    assert_too_large("0.1234567891", "3", "31234567891");
    assert_too_large("1e-1000", "1e1000", beyond);
    assert_too_large("1", "1e38", beyond);
    assert_too_large("3", "1e39", beyond);
    assert_too_large("1", "18446744073709551e3", "18446744073709551001");
    assert_too_large("1", "18446744073709552e3", beyond);
    // Both beyond 64 bits, but not in relation to each other.
    const struct mix_weight large[] = {parse("123456789e20"), parse("1e20"), parse("2e28")};
    uint32_t whole[3];
    struct error error = {0};
    assert_int_equal(mix_weights_scale(large, 3, whole, &error), 0);
    assert_true(whole[0] == 123456789 && whole[1] == 1 && whole[2] == 200000000);
}

static void test_how_many(void **state) {
    (void)state;
    struct mix_weight weights[MIX_MAX_SOURCES + 1];
    uint32_t whole[MIX_MAX_SOURCES + 1];
    struct error error = {0};
    for (uint32_t i = 0; i <= MIX_MAX_SOURCES; i++)
        weights[i] = parse(i % 2 ? "0.5" : "3");
    assert_int_equal(mix_weights_scale(weights, MIX_MAX_SOURCES, whole, &error), 0);
    assert_true(whole[0] == 6 && whole[255] == 1);
    assert_int_equal(mix_weights_scale(weights, MIX_MAX_SOURCES + 1, whole, &error), -EINVAL);
    assert_string_equal(error.text, "found 257 weights in a mix, wanted 1 to 256");
    assert_int_equal(mix_weights_scale(weights, 0, whole, &error), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_texts),  cmocka_unit_test(test_no_number),
        cmocka_unit_test(test_zero),          cmocka_unit_test(test_limits),
        cmocka_unit_test(test_golden_ratios), cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_how_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
