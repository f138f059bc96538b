// Which fields are images, their pixels, and how they are made smaller and drawn.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "client/ctl/cmd_show_options.h"
#include "client/ctl/image_draw.h"
#include "client/ctl/sheet.h"

static struct feed_array field(enum feed_dtype dtype, const void *data, uint32_t dimensions, uint64_t a,
                               uint64_t b, uint64_t c) {
    struct feed_array array = {
        .name = "x", .data = data, .dtype = dtype, .dimensions = dimensions + 1, .shape = {1, a, b, c}};
    array.bytes = feed_dtype_bytes(dtype);
    for (uint32_t i = 0; i < array.dimensions; i++)
        array.bytes *= array.shape[i];
    return array;
}

static void images_have_certain_shapes(void **state) {
    (void)state;
    static const struct {
        uint32_t dimensions;
        uint64_t shape[3];
        uint32_t height, width, channels; // 0: no image
    } cases[] = {
        {2, {8, 9}, 8, 9, 1},        {2, {7, 9}, 0, 0, 0},        {2, {9, 7}, 0, 0, 0},
        {3, {10, 12, 1}, 10, 12, 1}, {3, {10, 12, 3}, 10, 12, 3}, {3, {10, 12, 4}, 10, 12, 4},
        {3, {10, 12, 2}, 0, 0, 0},   {3, {1, 10, 12}, 10, 12, 1}, {3, {3, 10, 12}, 10, 12, 3},
        {3, {4, 10, 12}, 10, 12, 4}, {3, {2, 10, 12}, 0, 0, 0},   {3, {3, 8, 3}, 0, 0, 0},
        {3, {8, 3, 3}, 0, 0, 0},     {3, {8, 8, 8}, 0, 0, 0},     {1, {64}, 0, 0, 0},
        {0, {0}, 0, 0, 0},           {3, {3, 8, 8}, 8, 8, 3},     {3, {8, 8, 3}, 8, 8, 3},
    };
    static const enum feed_dtype dtypes[] = {FEED_U8, FEED_BOOL, FEED_F16, FEED_BF16, FEED_F32, FEED_F64};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const uint64_t *shape = cases[i].shape;
        struct feed_array array =
            field(dtypes[i % COUNT_OF(dtypes)], NULL, cases[i].dimensions, shape[0], shape[1], shape[2]);
        struct image size = {0};
        assert_int_equal(image_size(&array, &size), cases[i].channels != 0);
        assert_int_equal(size.height, cases[i].height);
        assert_int_equal(size.width, cases[i].width);
        assert_int_equal(size.channels, cases[i].channels);
        array.dtype = i % 2 ? FEED_I32 : FEED_C64;
        assert_false(image_is(&array));
    }
}

static void channels_stand_together_in_the_image(void **state) {
    (void)state;
    uint8_t first[3 * 8 * 9], last[8 * 9 * 3];
    for (uint32_t y = 0; y < 8; y++)
        for (uint32_t x = 0; x < 9; x++)
            for (uint32_t k = 0; k < 3; k++)
                first[(k * 8 + y) * 9 + x] = last[(y * 9 + x) * 3 + k] = (uint8_t)(100 * k + 9 * y + x);
    struct feed_array arrays[] = {field(FEED_U8, first, 3, 3, 8, 9), field(FEED_U8, last, 3, 8, 9, 3)};
    for (size_t i = 0; i < COUNT_OF(arrays); i++) {
        struct image image CLEANUP(image_free) = {0};
        assert_int_equal(image_make(&image, &arrays[i], &(struct summary){0}), 0);
        assert_memory_equal(image.pixels, last, sizeof last);
    }
}

static void floats_are_scaled_from_the_least_to_the_greatest(void **state) {
    (void)state;
    double values[64] = {-1e308, 1e308, 0, NAN, INFINITY, -INFINITY, 0.5e308};
    static const uint8_t wanted[] = {0, 255, 128, 0, 255, 0, 191, 128};
    struct feed_array array = field(FEED_F64, values, 2, 8, 8, 0);
    struct summary summary = summarise(FEED_F64, values, 64);
    struct image image CLEANUP(image_free) = {0};
    assert_int_equal(image_make(&image, &array, &summary), 0);
    assert_memory_equal(image.pixels, wanted, sizeof wanted);
    values[1] = 1.7e308; // after the range was found
    image_free(&image);
    assert_int_equal(image_make(&image, &array, &summary), 0);
    assert_int_equal(image.pixels[1], 255);
}

static void images_of_one_value_or_none_are_black(void **state) {
    (void)state;
    float values[64];
    for (size_t i = 0; i < 64; i++)
        values[i] = 3;
    for (int k = 0; k < 2; k++) {
        struct feed_array array = field(FEED_F32, values, 2, 8, 8, 0);
        struct summary summary = summarise(FEED_F32, values, 64);
        struct image image CLEANUP(image_free) = {0};
        assert_int_equal(image_make(&image, &array, &summary), 0);
        for (size_t i = 0; i < 64; i++)
            assert_int_equal(image.pixels[i], 0);
        for (size_t i = 0; i < 64; i++)
            values[i] = NAN;
    }
}

static void smaller_images_are_averages(void **state) {
    (void)state;
    uint8_t grey[] = {0, 10, 20, 30, 40, 50, 60, 70, 80};
    struct image image = {.width = 3, .height = 3, .channels = 1, .pixels = grey}, small;
    assert_int_equal(image_shrink(&image, 1, 5, &small), 0);
    assert_true(small.width == 1 && small.height == 1 && small.pixels[0] == 40);
    image_free(&small);
    // Two of three pixels: each has one whole and half of the middle one.
    assert_int_equal(image_shrink(&image, 2, 2, &small), 0);
    assert_true(small.width == 2 && small.height == 2);
    static const uint8_t halves[] = {13, 27, 53, 67};
    assert_memory_equal(small.pixels, halves, sizeof halves);
    image_free(&small);
    assert_int_equal(image_shrink(&image, 9, 9, &small), 0);
    assert_true(small.width == 3 && small.height == 3);
    assert_memory_equal(small.pixels, grey, sizeof grey);
    image_free(&small);
    struct image tall = {.width = 1, .height = 9, .channels = 1, .pixels = grey};
    assert_int_equal(image_shrink(&tall, 3, 3, &small), 0);
    assert_true(small.width == 1 && small.height == 3 && small.pixels[0] == 10 && small.pixels[2] == 70);
    image_free(&small);
}

static void what_cannot_be_seen_has_no_weight(void **state) {
    (void)state;
    uint8_t pixels[] = {200, 100, 50, 255, 0, 0, 0, 0};
    struct image image = {.width = 2, .height = 1, .channels = 4, .pixels = pixels}, small;
    assert_int_equal(image_shrink(&image, 1, 1, &small), 0);
    assert_memory_equal(small.pixels, ((uint8_t[]){200, 100, 50, 128}), 4);
    image_free(&small);
}

static void the_nearest_of_256_colours(void **state) {
    (void)state;
    static const struct {
        uint8_t rgb[3], number;
    } cases[] = {
        {{0, 0, 0}, 16},      {{255, 255, 255}, 231}, {{255, 0, 0}, 196},     {{0, 95, 135}, 24},
        {{8, 8, 8}, 232},     {{238, 238, 238}, 255}, {{128, 128, 128}, 244}, {{250, 250, 251}, 231},
        {{100, 90, 140}, 60}, {{3, 2, 1}, 16},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(image_nearest_colour(cases[i].rgb), cases[i].number);
}

static void draws(const struct image *image, bool true_colour, const char *wanted) {
    char *found AUTO_FREE = NULL;
    size_t bytes;
    FILE *out = open_memstream(&found, &bytes);
    assert_non_null(out);
    image_draw(image, true_colour, 2, out);
    fclose(out);
    assert_string_equal(found, wanted);
}

static void two_rows_make_a_line(void **state) {
    (void)state;
    uint8_t pixels[] = {255, 0, 0, 255, 0, 0, 0, 0, 255, 0, 255, 0, 255, 255, 255, 0, 0, 0};
    struct image image = {.width = 2, .height = 3, .channels = 3, .pixels = pixels};
    draws(&image, true,
          "  \033[38;2;255;0;0m\033[48;2;0;0;255m▀\033[48;2;0;255;0m▀\033[0m\n"
          "  \033[38;2;255;255;255m▀\033[38;2;0;0;0m▀\033[0m\n");
    draws(&image, false,
          "  \033[38;5;196m\033[48;5;21m▀\033[48;5;46m▀\033[0m\n"
          "  \033[38;5;231m▀\033[38;5;16m▀\033[0m\n");
    uint8_t clear[] = {9, 9, 9, 0, 50, 100, 200, 255};
    struct image ghost = {.width = 1, .height = 2, .channels = 4, .pixels = clear};
    draws(&ghost, true, "  \033[38;2;153;153;153m\033[48;2;50;100;200m▀\033[0m\n");
}

static void files_are_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *output;
        bool samples;
        const char *field;
        const char *wanted;
    } cases[] = {
        {"a.png", false, NULL, "a.png"},
        {"a.png", true, NULL, "a-7.png"},
        {"a.png", false, "image", "a-image.png"},
        {"a.png", true, "image", "a-7-image.png"},
        {"a%d.png", true, NULL, "a7.png"},
        {"a%d.png", false, NULL, "a7.png"},
        {"%d/a.PNG", true, "image", "7/a-image.PNG"},
        {"%d%s%d", true, NULL, "7%s%d"},
        {"noend", true, "x", "noend-7-x"},
        {".png", true, NULL, ".png-7"},
        {"a.png", false, "../x", "a-field.png"},
        {"a.jpg", true, NULL, "a-7.jpg"},
        {"a.JPEG", true, "image", "a-7-image.JPEG"},
        {"a.webp", false, "image", "a-image.webp"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *path AUTO_FREE =
            show_output_path(cases[i].output, 7, cases[i].samples, cases[i].field ? cases[i].field : "other",
                             cases[i].field != NULL);
        assert_string_equal(path, cases[i].wanted);
    }
}

static void rows_of_a_sheet_are_full_if_they_can_be(void **state) {
    (void)state;
    static const struct {
        uint64_t images;
        uint32_t columns;
    } cases[] = {{0, 1},  {1, 1},  {2, 2},   {3, 3},    {4, 2},    {5, 3},
                 {6, 3},  {7, 3},  {8, 4},   {10, 5},   {11, 4},   {32, 8},
                 {40, 8}, {64, 8}, {97, 10}, {128, 16}, {256, 16}, {4294967296, 65536}};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(sheet_columns(cases[i].images), cases[i].columns);
}

static void a_sheet_takes_images_of_one_size_that_fit_into_a_file(void **state) {
    (void)state;
    uint8_t pixels[2 * 3 * 3] = {7};
    struct sheet sheet CLEANUP(sheet_free) = {.count = 3};
    struct image image = {.width = 3, .height = 2, .channels = 3, .pixels = pixels};
    struct error error;
    assert_int_equal(sheet_put(&sheet, 2, &image, &error), 0);
    assert_int_equal(sheet.image.width, 3 * 3 + 2 * SHEET_GAP);
    assert_int_equal(sheet.image.height, 2);
    assert_int_equal(sheet.image.pixels[0], 0);
    assert_int_equal(sheet.image.pixels[2 * (3 + SHEET_GAP) * 3], 7);
    image.height = 1;
    assert_int_equal(sheet_put(&sheet, 0, &image, &error), -EINVAL);
    image = (struct image){.width = 3, .height = 2, .channels = 1, .pixels = pixels};
    assert_int_equal(sheet_put(&sheet, 0, &image, &error), -EINVAL);
    struct sheet large = {.count = 1u << 16};
    image = (struct image){.width = 1u << 23, .height = 8, .channels = 1, .pixels = pixels};
    assert_int_equal(sheet_put(&large, 0, &image, &error), -EFBIG);
    assert_null(large.image.pixels);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_have_certain_shapes),
        cmocka_unit_test(channels_stand_together_in_the_image),
        cmocka_unit_test(floats_are_scaled_from_the_least_to_the_greatest),
        cmocka_unit_test(images_of_one_value_or_none_are_black),
        cmocka_unit_test(smaller_images_are_averages),
        cmocka_unit_test(what_cannot_be_seen_has_no_weight),
        cmocka_unit_test(the_nearest_of_256_colours),
        cmocka_unit_test(two_rows_make_a_line),
        cmocka_unit_test(files_are_told_apart),
        cmocka_unit_test(rows_of_a_sheet_are_full_if_they_can_be),
        cmocka_unit_test(a_sheet_takes_images_of_one_size_that_fit_into_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
