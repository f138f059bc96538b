// Transforms compared with a slow reference that works element by element, for every set of loops that this processor
// can run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "tests/unit/transform_check.h"

static void every_source_and_step_at_every_length(void **state) {
    (void)state;
    static const char *const texts[] = {
        "cast f32",
        "cast f16",
        "cast bf16",
        "scale 1/255",
        "scale -3e-5, cast f16",
        "shift 0.1",
        "shift -1e30, cast bf16",
        "mean 127.5",
        "std 0.3",
        "standardise",
        "scale 1/255, mean 0.45, std 0.225",
        "standardise, scale 0.5, shift 1, cast f16",
        "scale 0.37, standardise, cast bf16",
    };
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        for (size_t k = 0; k < COUNT_OF(texts); k++)
            for (uint64_t length = 1; length <= 70; length++) {
                struct transform transform = make(texts[k], sources[i], 1, &length);
                check(&transform, texts[k], 1 + length % 3, stored_values());
            }
}

static void samples_of_several_blocks(void **state) {
    (void)state;
    static const uint64_t lengths[] = {1023, 1024, 1025, 2047, 2048, 2049, 2999};
    static const char *const texts[] = {"scale 2, standardise", "shift 1/3, cast f16",
                                        "standardise, shift 1, standardise, cast bf16"};
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        for (size_t k = 0; k < COUNT_OF(texts); k++)
            for (size_t l = 0; l < COUNT_OF(lengths); l++) {
                struct transform transform = make(texts[k], sources[i], 1, &lengths[l]);
                check(&transform, texts[k], 2, stored_values());
            }
}

// Channels of one element, of a few, and of many; ends of blocks within them.
static void channels(void **state) {
    (void)state;
    static const uint64_t inner[] = {1, 2, 3, 15, 63, 64, 65, 255, 257, 700, 1024, 1025};
    static const char *const texts[] = {"mean 1 -2 1/3", "std 0.5 7 1e-3, cast f16",
                                        "scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225",
                                        "mean 1 2 3, standardise, std 3 2 1, cast bf16"};
    for (size_t i = 0; i < COUNT_OF(inner); i++)
        for (size_t k = 0; k < COUNT_OF(texts); k++) {
            struct transform transform =
                make(texts[k], sources[i % COUNT_OF(sources)], 2, (uint64_t[]){3, inner[i]});
            assert_int_equal(transform.channel, inner[i]);
            check(&transform, texts[k],
                  min_u64(ELEMENTS / (3 * inner[i]), 7) ? min_u64(ELEMENTS / (3 * inner[i]), 7) : 1,
                  stored_values());
        }
}

// What rounding to float32 mostly hides: every partial sum has the bits that the order of its additions gives.
static void sums_are_made_in_lanes(void **state) {
    (void)state;
    static float values[2000];
    for (size_t i = 0; i < COUNT_OF(values); i++)
        values[i] = ldexpf((float)random_number(), (int)(random_number() % 90) - 80);
    const struct transform_kernels *kernels;
    for (uint32_t set = 0; (kernels = transform_kernels(set)); set++)
        for (size_t count = 0; count <= COUNT_OF(values); count += count < 70 ? 1 : 193) {
            double sums[TRANSFORM_LANES] = {1, 2}, squares[TRANSFORM_LANES] = {3};
            double wanted_sums[TRANSFORM_LANES] = {1, 2}, wanted_squares[TRANSFORM_LANES] = {3};
            for (size_t i = 0; i < count; i++) {
                volatile double off = (double)values[i] - 0.1, square = off * off;
                wanted_sums[i % TRANSFORM_LANES] += (double)values[i];
                wanted_squares[i % TRANSFORM_LANES] += square;
            }
            kernels->sum(sums, values, count);
            kernels->squares(squares, values, 0.1, count);
            assert_memory_equal(sums, wanted_sums, sizeof sums);
            assert_memory_equal(squares, wanted_squares, sizeof squares);
        }
}

static void standardise_of_what_has_no_spread(void **state) {
    (void)state;
    for (uint64_t length = 1; length <= 2050; length += length < 70 ? 1 : 660) {
        struct transform transform = make("standardise", DTYPE_F32, 1, &length);
        AUTO_FREE float *stored = calloc(length, sizeof *stored);
        AUTO_FREE float *delivered = calloc(length, sizeof *delivered);
        static const float values[] = {0, -0.0f, 0.1f, -3e38f, 1e-42f};
        for (size_t k = 0; k < COUNT_OF(values); k++) {
            for (uint64_t i = 0; i < length; i++)
                stored[i] = values[k];
            transform_run(&transform, (const uint8_t *)stored, (uint8_t *)delivered, 1);
            for (uint64_t i = 0; i < length; i++)
                assert_true(delivered[i] == 0 && !signbit(delivered[i]));
        }
        for (int k = 0; k < 2; k++) {
            stored[length / 2] = k ? INFINITY : NAN;
            transform_run(&transform, (const uint8_t *)stored, (uint8_t *)delivered, 1);
            for (uint64_t i = 0; i < length; i++)
                assert_true(isnan(delivered[i]));
        }
    }
}

static void check_values(const char *text, const float *values, uint64_t count) {
    struct transform transform = make(text, DTYPE_F32, 1, &count);
    check(&transform, text, 1, (const uint8_t *)values);
}

// Every value of the narrow type, every middle between two neighbours, and the floats next to all of them.
static void rounding_to_a_narrow_type(const char *text, float (*widen)(uint32_t), uint32_t infinite) {
    static float values[1u << 17];
    for (int which = 0; which < 6; which++) {
        uint64_t count = 0;
        for (uint32_t bits = 0; bits <= infinite; bits++) {
            float value = widen(bits), next = bits < infinite ? widen(bits + 1) : value;
            if (which >= 3 && isinf(next)) // where the type would go on
                next = value + (value - widen(bits - 1));
            float at = which < 3 ? value : (float)(((double)value + (double)next) / 2);
            at = which % 3 == 1 ? nextafterf(at, INFINITY) : which % 3 == 2 ? nextafterf(at, -INFINITY) : at;
            values[count++] = at;
            values[count++] = -at;
        }
        check_values(text, values, count);
    }
    for (int round = 0; round < 4; round++) {
        fill((uint8_t *)values, sizeof values);
        check_values(text, values, COUNT_OF(values));
    }
}

static void every_f16(void **state) {
    (void)state;
    static uint16_t values[1u << 16];
    const uint64_t count = COUNT_OF(values);
    for (uint32_t i = 0; i < count; i++)
        values[i] = (uint16_t)i;
    struct transform transform = make("cast f32", DTYPE_F16, 1, &count);
    check(&transform, "cast f32", 1, (const uint8_t *)values);
    transform = make("cast f16", DTYPE_F16, 1, &count);
    check(&transform, "cast f16", 1, (const uint8_t *)values);
    rounding_to_a_narrow_type("cast f16", reference_from_f16, 0x7c00);
}

static void every_bf16(void **state) {
    (void)state;
    static uint16_t values[1u << 16];
    const uint64_t count = COUNT_OF(values);
    for (uint32_t i = 0; i < count; i++)
        values[i] = (uint16_t)i;
    struct transform transform = make("cast f32", DTYPE_BF16, 1, &count);
    check(&transform, "cast f32", 1, (const uint8_t *)values);
    transform = make("cast bf16", DTYPE_BF16, 1, &count);
    check(&transform, "cast bf16", 1, (const uint8_t *)values);
    rounding_to_a_narrow_type("cast bf16", reference_from_bf16, 0x7f80);
}

static void what_the_words_mean(void **state) {
    (void)state;
    struct transform transform =
        make(" scale\t1/255 ,mean 1e2 -.5 3,std 2,standardise  ,cast bf16", DTYPE_U8, 2, (uint64_t[]){3, 7});
    assert_int_equal(transform.target, DTYPE_BF16);
    assert_int_equal(transform.stored, DTYPE_U8);
    assert_int_equal(transform.elements, 21);
    assert_int_equal(transform.channel, 7);
    assert_int_equal(transform.step_count, 4);
    assert_int_equal(transform.steps[0].kind, TRANSFORM_SCALE);
    assert_true(transform.steps[0].values[0] == (float)(1.0 / 255));
    assert_int_equal(transform.steps[1].kind, TRANSFORM_MEAN);
    assert_int_equal(transform.steps[1].count, 3);
    assert_true(transform.steps[1].values[0] == 100 && transform.steps[1].values[1] == -0.5f);
    assert_int_equal(transform.steps[3].kind, TRANSFORM_STANDARDISE);
    assert_true(make("scale 0.1/0.3", DTYPE_U8, 0, NULL).steps[0].values[0] == (float)(0.1 / 0.3));
    assert_int_equal(make("scale 2", DTYPE_F64, 0, NULL).target, DTYPE_F32);
    assert_int_equal(make("cast f32, scale 2", DTYPE_F64, 0, NULL).elements, 1);
    assert_false(transform_takes(DTYPE_C64) || transform_takes(DTYPE_C128) || transform_takes(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_words_mean),
        cmocka_unit_test(every_source_and_step_at_every_length),
        cmocka_unit_test(samples_of_several_blocks),
        cmocka_unit_test(channels),
        cmocka_unit_test(sums_are_made_in_lanes),
        cmocka_unit_test(standardise_of_what_has_no_spread),
        cmocka_unit_test(every_f16),
        cmocka_unit_test(every_bf16),
    };
    return cmocka_run_group_tests_name("transform", tests, NULL, NULL);
}
