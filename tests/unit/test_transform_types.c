// Transforms to integer types and to other layouts, compared with a slow reference.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "base/sizes.h"
#include "tests/unit/transform_check.h"

// Integers stay exact; what a type cannot hold becomes its limit; numbers are rounded.
static void casts_to_integers(void **state) {
    (void)state;
    static const char *const names[] = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"};
    static const char *const texts[] = {"cast", "scale 1/255, cast", "shift -0.5, cast", "scale 3e16, cast",
                                        "standardise, scale 2, cast"};
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        for (size_t k = 0; k < COUNT_OF(names); k++)
            for (size_t t = 0; t < COUNT_OF(texts); t++)
                for (uint64_t length = 1; length <= 1100; length = 3 * length + 2) {
                    char text[64];
                    snprintf(text, sizeof text, "%s %s", texts[t], names[k]);
                    struct transform transform = make(text, sources[i], 1, &length);
                    check(&transform, text, 2, stored_values());
                }
}

static void check_cast(const char *text, uint32_t dtype, const void *stored, const void *wanted,
                       uint64_t count) {
    struct transform transform = make(text, dtype, 1, &count);
    uint8_t got[64];
    transform_run(&transform, stored, got, 1);
    assert_memory_equal(got, wanted, count * dtype_bytes(transform.target));
}

static void limits_of_integers(void **state) {
    (void)state;
    const double real[] = {0.5,   1.5,        -0.5, 2147483647.5, -2147483649.0, 9007199254740993.0,
                           1e300, (double)NAN};
    check_cast("cast i32", DTYPE_F64, real,
               (int32_t[]){0, 2, 0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MAX, 0}, 8);
    check_cast("cast i64", DTYPE_F64, real,
               (int64_t[]){0, 2, 0, 2147483648, -2147483649, 9007199254740992, INT64_MAX, 0}, 8);
    check_cast("cast u64", DTYPE_F64, (double[]){0x1.fffffffffffffp63, 0x1p64, -1, 0x1p63},
               (uint64_t[]){0xfffffffffffff800u, UINT64_MAX, 0, 0x8000000000000000u}, 4);
    // Neither float32 nor float64 can hold these.
    const int64_t odd[] = {INT64_MAX, INT64_MIN, 9007199254740993, 16777217};
    check_cast("cast i64", DTYPE_I64, odd, odd, 4);
    check_cast("cast u64", DTYPE_I64, odd, (uint64_t[]){INT64_MAX, 0, 9007199254740993, 16777217}, 4);
    check_cast("cast i32", DTYPE_I64, odd, (int32_t[]){INT32_MAX, INT32_MIN, INT32_MAX, 16777217}, 4);
    check_cast("cast i64", DTYPE_U64, (uint64_t[]){UINT64_MAX, 1}, (int64_t[]){INT64_MAX, 1}, 2);
    check_cast("cast u8", DTYPE_F32, (float[]){254.5f, 255.5f, -3, INFINITY}, (uint8_t[]){254, 255, 0, 255},
               4);
}

// Images of every type in both arrangements, to both layouts, with channels in the right place.
static void layouts(void **state) {
    (void)state;
    static const char *const texts[] = {
        "layout chw",
        "layout hwc",
        "layout chw, cast f16",
        "scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, layout chw",
        "layout hwc, mean 1 2 3, standardise, cast bf16",
        "mean 1 2 3, layout chw, cast u8",
        "layout chw, cast i64",
        "layout hwc, cast i16"};
    static const uint64_t shapes[][3] = {{5, 7, 3}, {3, 5, 7}, {64, 9, 3}, {3, 37, 9}, {5, 1, 3}, {3, 1, 70}};
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        for (size_t s = 0; s < COUNT_OF(shapes); s++)
            for (size_t k = 0; k < COUNT_OF(texts); k++) {
                struct transform transform = make(texts[k], sources[i], 3, shapes[s]);
                assert_int_equal(transform.arrangement, shapes[s][0] == 3 ? TRANSFORM_CHW : TRANSFORM_HWC);
                check(&transform, texts[k], 2, stored_values());
            }
}

static void check_shape(const char *text, uint32_t dimensions, const uint64_t *shape,
                        const uint64_t *wanted) {
    struct transform transform = make(text, DTYPE_U8, dimensions, shape);
    uint64_t delivered[3] = {0};
    memcpy(delivered, shape, dimensions * sizeof *shape);
    transform_shape(&transform, &dimensions, delivered);
    assert_int_equal(dimensions, 3);
    assert_memory_equal(delivered, wanted, sizeof delivered);
}

static void shapes_of_layouts(void **state) {
    (void)state;
    check_shape("layout chw", 3, (uint64_t[]){5, 7, 3}, (uint64_t[]){3, 5, 7});
    check_shape("layout hwc", 3, (uint64_t[]){5, 7, 3}, (uint64_t[]){5, 7, 3});
    check_shape("layout hwc", 3, (uint64_t[]){1, 5, 7}, (uint64_t[]){5, 7, 1});
    check_shape("layout chw", 2, (uint64_t[]){5, 7}, (uint64_t[]){1, 5, 7});
    check_shape("layout hwc", 2, (uint64_t[]){5, 7}, (uint64_t[]){5, 7, 1});
    check_shape("scale 2", 3, (uint64_t[]){5, 7, 3}, (uint64_t[]){5, 7, 3});
    struct transform transform;
    struct error error = {0};
    assert_int_equal(transform_parse("layout chw", &transform, &error), 0);
    assert_int_equal(transform_fit(&transform, DTYPE_U8, 3, (uint64_t[]){3, 9, 3}, &error), -EINVAL);
    assert_int_equal(transform_fit(&transform, DTYPE_U8, 3, (uint64_t[]){5, 9, 7}, &error), -EINVAL);
    assert_int_equal(transform_fit(&transform, DTYPE_U8, 1, (uint64_t[]){5}, &error), -EINVAL);
}

// What steps on images have made, and the table of their values.
static void images(void **state) {
    (void)state;
    struct transform transform;
    struct error error = {0};
    const char *text = "scale 1/255, mean 0.485 0.456 0.406, layout chw, cast f16";
    assert_int_equal(transform_parse(text, &transform, &error), 0);
    assert_int_equal(transform_fit_image(&transform, 6, 5, 3, &error), 0);
    assert_true(transform_moves(&transform) && transform_is_of_values(&transform) && transform.planes);
    check(&transform, text, 3, stored_values());
    transform_fit_planes(&transform, 3, 256);
    assert_false(transform_moves(&transform));
    check(&transform, text, 1, stored_values());
    assert_int_equal(transform_parse("", &transform, &error), 0);
    assert_int_equal(transform_fit_image(&transform, 6, 5, 3, &error), 0);
    assert_int_equal(transform.target, DTYPE_U8);
    check(&transform, "", 3, stored_values());
    assert_int_equal(transform_parse("standardise", &transform, &error), 0);
    assert_int_equal(transform_fit_image(&transform, 6, 5, 1, &error), 0);
    assert_false(transform_is_of_values(&transform) || transform_moves(&transform));
    assert_int_equal(transform_parse("mean 1 2", &transform, &error), 0);
    assert_int_equal(transform_fit_image(&transform, 6, 5, 3, &error), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_to_integers),
        cmocka_unit_test(limits_of_integers),
        cmocka_unit_test(layouts),
        cmocka_unit_test(shapes_of_layouts),
        cmocka_unit_test(images),
    };
    return cmocka_run_group_tests_name("transform types", tests, NULL, NULL);
}
