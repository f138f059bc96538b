// Operations on pixels: what torchvision makes of them, all instruction sets alike, nothing touched outside the
// image.
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
#include "daemon/image/colour_kernels.h"
#include "tests/unit/colour_vectors.h"
#include "tests/unit/image_fixture.h"

static const uint8_t fill[3] = {7, 9, 250};

static const double *values_of(const struct colour_vector *vector) {
    return &vector->value;
}

static void run_named(const char *name, struct image *image, const double *values, const uint8_t fills[3]) {
    AUTO_FREE uint8_t *scratch = malloc(image_augment_scratch(image) + !image_augment_scratch(image));
    assert_non_null(scratch);
    struct image_call call = {image, scratch, values, {fills[0], fills[1], fills[2]}};
    for (size_t i = 0; i < COUNT_OF(image_operations); i++)
        if (strcmp(image_operations[i].name, name) == 0) {
            image_operations[i].run(&call);
            return;
        }
    fail_msg("no operation %s", name);
}

static void they_are_torchvisions(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(colour_vectors); i++) {
        const struct colour_vector *vector = &colour_vectors[i];
        const size_t row = (size_t)vector->width * vector->channels, bytes = row * vector->height;
        AUTO_FREE uint8_t *pixels = malloc(bytes);
        assert_non_null(pixels);
        image_draw(pixels, bytes);
        struct image image = {pixels, vector->width, vector->height, vector->channels, row};
        const uint8_t grey[3] = {7, 7, 7};
        run_named(vector->operation, &image, values_of(vector), vector->channels == 3 ? fill : grey);
        if (image_checksum(pixels, bytes) != vector->checksum)
            fail_msg("%s %g of %ux%ux%u", vector->operation, vector->value, vector->width, vector->height,
                     vector->channels);
    }
}

// In memory of exactly the size, so that the sanitizer sees any access outside; with gaps between rows; of any size.
static void gaps_between_rows_stay_as_they_are(void **state) {
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1},  {0, 0}, {0, 3}, {3, 0}, {1, 70},
                                        {70, 1}, {3, 2}, {2, 3}, {67, 5}};
    for (size_t i = 0; i < COUNT_OF(colour_vectors); i++)
        for (size_t k = 0; k < COUNT_OF(sizes); k++) {
            const uint32_t width = sizes[k][0], height = sizes[k][1], channels = colour_vectors[i].channels;
            const size_t row = (size_t)width * channels, stride = row + 5;
            AUTO_FREE uint8_t *apart = malloc(height * stride + 1), *close = malloc(height * row + 1);
            assert_true(apart && close);
            memset(apart, 0xa5, height * stride + 1);
            image_draw(close, height * row);
            for (uint32_t y = 0; y < height; y++)
                memcpy(apart + y * stride, close + y * row, row);
            struct image with_gaps = {apart, width, height, channels, stride};
            struct image without = {close, width, height, channels, row};
            run_named(colour_vectors[i].operation, &with_gaps, values_of(&colour_vectors[i]), fill);
            run_named(colour_vectors[i].operation, &without, values_of(&colour_vectors[i]), fill);
            for (uint32_t y = 0; y < height; y++) {
                assert_memory_equal(apart + y * stride, close + y * row, row);
                for (size_t j = row; j < stride; j++)
                    assert_int_equal(apart[y * stride + j], 0xa5);
            }
        }
}

static float level_of(const uint8_t *rgb) {
    return floorf(fmaf(rgb[2], 0.114f, fmaf(rgb[1], 0.587f, rgb[0] * 0.2989f)));
}

static uint8_t cut(float value) {
    return (uint8_t)fminf(fmaxf(value, 0), 255);
}

// As the header defines it, with the C library's fused multiply-add.
static void every_set_computes_what_is_defined(void **state) {
    (void)state;
    static const float factors[] = {0, 1e-9F, 0.1F, 0.7F, 1, 1.3F, 2.85F, 255, 1e6F};
    const size_t pixels = 9001;
    AUTO_FREE uint8_t *rgb = malloc(3 * pixels), *to = malloc(3 * pixels);
    assert_true(rgb && to);
    uint32_t word = 1;
    for (size_t i = 0; i < 3 * pixels; i++)
        rgb[i] = (uint8_t)((word = word * 1664525u + 1013904223u) >> 24);
    for (uint32_t k = 0; colour_kernels(k); k++) {
        const struct colour_kernels *set = colour_kernels(k);
        uint64_t sum = 0;
        for (size_t i = 0; i < pixels; i++)
            sum += (uint64_t)level_of(rgb + 3 * i);
        assert_int_equal(set->sum_levels(rgb, pixels), sum);
        for (size_t f = 0; f < COUNT_OF(factors); f++) {
            const float factor = factors[f], rest = 1 - factor;
            memcpy(to, rgb, 3 * pixels);
            set->saturate(to, pixels, factor, rest);
            for (size_t i = 0; i < 3 * pixels; i++)
                if (to[i] != cut(fmaf(level_of(rgb + i / 3 * 3), rest, rgb[i] * factor)))
                    fail_msg("%s: value %zu with factor %g", set->name, i, (double)factor);
        }
    }
}

struct sets {
    const struct colour_kernels *one, *other;
    uint8_t *a, *b;
    const uint8_t *from;
    size_t pixels;
};

static void start(struct sets *sets) {
    memcpy(sets->a, sets->from, 3 * sets->pixels);
    memcpy(sets->b, sets->from, 3 * sets->pixels);
}

static void compare(const struct sets *sets, const char *what) {
    if (memcmp(sets->a, sets->b, 3 * sets->pixels) != 0)
        fail_msg("%s of %zu pixels: %s and %s differ", what, sets->pixels, sets->one->name,
                 sets->other->name);
}

static void compare_sets(struct sets *sets, uint32_t round) {
    uint8_t tables[3][256], least[2][3] = {{255, 255, 255}, {255, 255, 255}}, most[2][3] = {{0}};
    for (uint32_t i = 0; i < sizeof tables; i++)
        tables[i / 256][i % 256] = (uint8_t)(i * (2 * round + 1) + (i >> 8));
    const struct colour_kernels *one = sets->one, *other = sets->other;
    const size_t count = 3 * sets->pixels;
    start(sets), one->map(sets->a, count, tables[1]), other->map(sets->b, count, tables[1]);
    compare(sets, "map");
    start(sets), one->map_rgb(sets->a, sets->pixels, tables), other->map_rgb(sets->b, sets->pixels, tables);
    compare(sets, "map_rgb");
    start(sets), one->grayscale(sets->a, sets->pixels), other->grayscale(sets->b, sets->pixels);
    compare(sets, "grayscale");
    const float turn = (float)(round % 11) / 10 - 0.5F;
    start(sets), one->hue(sets->a, sets->pixels, turn), other->hue(sets->b, sets->pixels, turn);
    compare(sets, "hue");
    const float rest = 1 - (float)round * 0.37F;
    start(sets);
    one->saturate(sets->a, sets->pixels, 1 - rest, rest),
        other->saturate(sets->b, sets->pixels, 1 - rest, rest);
    compare(sets, "saturate");
    start(sets);
    const uint8_t *row = sets->from;
    one->sharpen(sets->a, row + 7, row, row + 12, count, 3, rest);
    other->sharpen(sets->b, row + 7, row, row + 12, count, 3, rest);
    compare(sets, "sharpen");
    one->range(row, count, 1 + round % 2 * 2, least[0], most[0]);
    other->range(row, count, 1 + round % 2 * 2, least[1], most[1]);
    assert_memory_equal(least[0], least[1], 3);
    assert_memory_equal(most[0], most[1], 3);
    assert_int_equal(one->sum_levels(row, sets->pixels), other->sum_levels(row, sets->pixels));
}

static void all_sets_have_the_same_bits(void **state) {
    (void)state;
    const size_t most = 2100;
    AUTO_FREE uint8_t *from = malloc(3 * most + 12), *a = malloc(3 * most), *b = malloc(3 * most);
    assert_true(from && a && b);
    uint32_t word = 7, last = 0;
    while (colour_kernels(last + 1))
        last++;
    for (uint32_t k = 0; k < last; k++)
        for (uint32_t round = 0; round < 300; round++) {
            for (size_t i = 0; i < 3 * most + 12; i++)
                from[i] = (uint8_t)((word = word * 1664525u + 1013904223u) >> 24 >> (round % 3 == 0 ? 5 : 0));
            struct sets sets = {
                colour_kernels(k), colour_kernels(last), a, b, from, round < 200 ? round : word % most};
            compare_sets(&sets, round);
        }
}

// Every colour's hue, and that none is turned: the loss is what HSV has.
static void all_sets_have_the_same_hues(void **state) {
    (void)state;
    AUTO_FREE uint8_t *a = malloc(3 * 65536), *b = malloc(3 * 65536);
    assert_true(a && b);
    uint32_t last = 0;
    while (colour_kernels(last + 1))
        last++;
    for (uint32_t red = 0; red < 256; red++) {
        for (uint32_t i = 0; i < 65536; i++) {
            a[3 * i] = (uint8_t)red, a[3 * i + 1] = (uint8_t)(i >> 8), a[3 * i + 2] = (uint8_t)i;
        }
        memcpy(b, a, 3 * 65536);
        const float turn = red < 128 ? 0 : 0.17F;
        colour_kernels(0)->hue(a, 65536, turn);
        colour_kernels(last)->hue(b, 65536, turn);
        assert_memory_equal(a, b, 3 * 65536);
        for (uint32_t i = 0; i < 65536 && red < 128; i++) {
            assert_in_range(a[3 * i] + 1, red, red + 2);
            assert_in_range(a[3 * i + 1] + 1, i >> 8, (i >> 8) + 2);
            assert_in_range(a[3 * i + 2] + 1, i & 255, (i & 255) + 2);
        }
    }
}

// Dark against bright, so that the mean over nine pixels takes every value.
static void sharpness_rounds_its_mean_exactly(void **state) {
    (void)state;
    for (uint32_t total = 0; total <= 8 * 255; total++) {
        uint8_t pixels[9], scratch[6];
        uint32_t left = total;
        for (uint32_t i = 0; i < 9; i++) {
            const uint32_t value = i == 4 ? 0 : left < 255 ? left : 255;
            pixels[i] = (uint8_t)value;
            left -= value;
        }
        pixels[4] = (uint8_t)(total % 256);
        const double mean = (total + 5.0 * pixels[4]) / 13;
        struct image image = {pixels, 3, 3, 1, 3};
        image_sharpness(&image, 0, scratch);
        assert_int_equal(pixels[4], (uint8_t)lrint(mean));
    }
}

static void what_lies_outside_is_not_erased(void **state) {
    (void)state;
    static const struct image_rect rects[] = {
        {4, 0, 1, 1}, {0, 3, 1, 1}, {UINT32_MAX, 0, 2, 2}, {1, 1, 0, 5}, {2, 2, UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < COUNT_OF(rects); i++) {
        AUTO_FREE uint8_t *pixels = calloc(4 * 3, 3);
        assert_non_null(pixels);
        struct image image = {pixels, 4, 3, 3, 12};
        image_erase(&image, rects[i], fill);
        for (uint32_t k = 0; k < 12; k++)
            assert_int_equal(pixels[3 * k + 2], i == 4 && k >= 10 ? 250 : 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_torchvisions),
        cmocka_unit_test(gaps_between_rows_stay_as_they_are),
        cmocka_unit_test(every_set_computes_what_is_defined),
        cmocka_unit_test(all_sets_have_the_same_bits),
        cmocka_unit_test(all_sets_have_the_same_hues),
        cmocka_unit_test(sharpness_rounds_its_mean_exactly),
        cmocka_unit_test(what_lies_outside_is_not_erased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
