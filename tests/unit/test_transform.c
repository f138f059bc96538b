// Transforms compared with a slow reference that works element by element, for every set of loops that this processor
// can run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/loader/stage/transform_kernels.h"
#include "daemon/loader/stage/transform_run.h"
#include "tests/unit/transform_reference.h"

#define GUARD    64u
#define ELEMENTS 6000u

static uint64_t random_state = 11;

static uint64_t random_number(void) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return random_state >> 33;
}

// Any bits, and often special ones.
static void fill(uint8_t *bytes, size_t count) {
    static const uint8_t specials[] = {0x00, 0x80, 0x7f, 0xff, 0x01};
    for (size_t i = 0; i < count; i++)
        bytes[i] =
            (uint8_t)(random_number() % 8 ? random_number() : specials[random_number() % sizeof specials]);
}

static bool same(uint32_t dtype, const uint8_t *left, const uint8_t *right) {
    uint32_t a = 0, b = 0;
    memcpy(&a, left, dtype_bytes(dtype));
    memcpy(&b, right, dtype_bytes(dtype));
    uint32_t sign = dtype == DTYPE_F32 ? 0x80000000u : 0x8000u;
    uint32_t infinite = dtype == DTYPE_F32 ? 0x7f800000u : dtype == DTYPE_F16 ? 0x7c00u : 0x7f80u;
    bool no_numbers = (a & (sign - 1)) > infinite && (b & (sign - 1)) > infinite;
    return a == b || no_numbers;
}

static struct transform make(const char *text, uint32_t dtype, uint32_t dimensions, const uint64_t *shape) {
    struct transform transform;
    struct error error = {0};
    if (transform_parse(text, &transform, &error) ||
        transform_fit(&transform, dtype, dimensions, shape, &error))
        fail_msg("%s: %s", text, error.text);
    return transform;
}

static void compare(const struct transform *transform, const char *text, const char *set, const uint8_t *got,
                    const uint8_t *wanted, uint64_t elements) {
    size_t bytes = dtype_bytes(transform->target);
    for (uint64_t i = 0; i < elements; i++) {
        uint32_t a = 0, b = 0;
        memcpy(&a, got + i * bytes, bytes);
        memcpy(&b, wanted + i * bytes, bytes);
        if (!same(transform->target, got + i * bytes, wanted + i * bytes))
            fail_msg("%s of %s with %s: element %lu of %lu is %08x, wanted %08x", text,
                     dtype_name(transform->stored), set, (unsigned long)i, (unsigned long)elements, a, b);
    }
}

static void check_guard(const uint8_t *guard) {
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(guard[i], 0x5a);
}

// Every set, from memory apart and in place, at an address of any alignment; nothing beside it is written.
static void check(const struct transform *transform, const char *text, uint64_t samples,
                  const uint8_t *stored) {
    uint64_t elements = samples * transform->elements;
    size_t in = elements * dtype_bytes(transform->stored), out = elements * dtype_bytes(transform->target);
    size_t off = random_number() % 8;
    AUTO_FREE uint8_t *wanted = malloc(out);
    AUTO_FREE uint8_t *memory = malloc(off + GUARD + out + GUARD);
    assert_true(wanted && memory);
    for (uint64_t i = 0; i < samples; i++)
        reference_sample(transform, stored + i * (in / samples), wanted + i * (out / samples));
    const struct transform_kernels *kernels;
    for (uint32_t set = 0; (kernels = transform_kernels(set)); set++)
        for (int in_place = 0; in_place < (out >= in ? 2 : 1); in_place++) {
            uint8_t *to = memory + off + GUARD;
            const uint8_t *from = stored;
            memset(memory, 0x5a, off + GUARD + out + GUARD);
            if (in_place)
                from = memcpy(to + out - in, stored, in);
            transform_run_with(kernels, transform, from, to, samples);
            compare(transform, text, kernels->name, to, wanted, elements);
            check_guard(to - GUARD);
            check_guard(to + out);
        }
}

static uint8_t *stored_values(void) {
    static uint8_t bytes[ELEMENTS * 8 + 8];
    fill(bytes, sizeof bytes);
    return bytes + random_number() % 8;
}

static const uint32_t sources[] = {DTYPE_BOOL, DTYPE_U8,  DTYPE_I8,  DTYPE_U16, DTYPE_I16,
                                   DTYPE_U32,  DTYPE_I32, DTYPE_U64, DTYPE_I64, DTYPE_F16,
                                   DTYPE_BF16, DTYPE_F32, DTYPE_F64};

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
