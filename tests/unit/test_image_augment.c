// Shears and rotations, and how RandAugment and TrivialAugmentWide choose: every operation equally often, with the
// magnitudes of the tables.
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
#include "tests/unit/image_fixture.h"

static void sines_are_the_c_librarys(void **state) {
    (void)state;
    for (int32_t i = -36000; i <= 36000; i++) {
        double sine, cosine;
        const double degrees = i / 100.0, angle = degrees * (3.14159265358979323846 / 180);
        image_sine_cosine(degrees, &sine, &cosine);
        assert_true(fabs(sine - sin(angle)) < 2e-15);
        assert_true(fabs(cosine - cos(angle)) < 2e-15);
    }
}

static void quarter_turns_move_every_pixel(void **state) {
    (void)state;
    for (uint32_t side = 1; side <= 40; side++) {
        const uint32_t count = side * side;
        AUTO_FREE uint8_t *from = malloc(count), *pixels = malloc(count), *scratch = malloc(count);
        assert_true(from && pixels && scratch);
        image_draw(from, count);
        for (int32_t turns = -4; turns <= 4; turns++) {
            memcpy(pixels, from, count);
            struct image image = {pixels, side, side, 1, side};
            image_rotate(&image, 90.0 * turns, (const uint8_t[3]){0}, scratch);
            for (uint32_t y = 0; y < side; y++)
                for (uint32_t x = 0; x < side; x++) {
                    uint32_t u = x, v = y;
                    for (uint32_t k = 0; k < (uint32_t)(turns + 4) % 4; k++) {
                        const uint32_t last = u;
                        u = side - 1 - v, v = last; // counter-clockwise: from the right to the top
                    }
                    assert_int_equal(pixels[y * side + x], from[v * side + u]);
                }
        }
    }
}

static void translations_move_by_whole_pixels(void **state) {
    (void)state;
    static const int64_t moves[] = {0, 1, -1, 3, -3, 6, -6, 7, -7, 1000, -1000, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < COUNT_OF(moves); i++) {
        uint8_t from[7 * 5], across[7 * 5], down[7 * 5];
        image_draw(from, sizeof from);
        memcpy(across, from, sizeof from);
        memcpy(down, from, sizeof from);
        image_translate_x(&(struct image){across, 7, 5, 1, 7}, moves[i], (const uint8_t[3]){1});
        image_translate_y(&(struct image){down, 7, 5, 1, 7}, moves[i], (const uint8_t[3]){1});
        const int64_t move = moves[i] < -100 ? -100 : moves[i] > 100 ? 100 : moves[i];
        for (int64_t y = 0; y < 5; y++)
            for (int64_t x = 0; x < 7; x++) {
                const int64_t u = x - move, v = y - move;
                assert_int_equal(across[y * 7 + x], u >= 0 && u < 7 ? from[y * 7 + u] : 1);
                assert_int_equal(down[y * 7 + x], v >= 0 && v < 5 ? from[v * 7 + x] : 1);
            }
    }
}

static void all_sets_locate_the_same_pixels(void **state) {
    (void)state;
    enum {
        MOST = 600
    };
    int32_t a[MOST], b[MOST];
    uint32_t last = 0, word = 3;
    while (colour_kernels(last + 1))
        last++;
    for (uint32_t round = 0; round < 20000; round++) {
        float random[6];
        for (uint32_t i = 0; i < 6; i++)
            random[i] = (float)((word = word * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1;
        const uint32_t width = 1 + word % (round % 100 ? MOST : 65535), height = 1 + (word >> 16) % 600;
        const float by_width = (float)width / 2, by_height = (float)height / 2;
        const struct affine_row row = {random[0] / by_width,
                                       random[1],
                                       random[2],
                                       random[3] / by_height,
                                       random[4],
                                       random[5],
                                       (1 - (float)width) / 2,
                                       (float)width,
                                       (float)height,
                                       3,
                                       (int32_t)width * 3};
        const uint32_t begin = width > MOST ? width - MOST : 0, count = width - begin;
        colour_kernels(round % (last + 1))->locate(a, begin, count, &row);
        colour_kernels(last)->locate(b, begin, count, &row);
        assert_memory_equal(a, b, count * sizeof *a);
        for (uint32_t i = 0; i < count; i++)
            if (a[i] != AFFINE_OUTSIDE)
                assert_in_range(a[i], 0, width * height * 3 - 3);
    }
}

// Chi-squared of equally likely counts; `most` is far in its tail.
static void assert_even(const uint32_t *counts, uint32_t kinds, double most) {
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < kinds; i++)
        sum += counts[i];
    for (uint32_t i = 0; i < kinds; i++)
        squares += (counts[i] - sum / kinds) * (counts[i] - sum / kinds) / (sum / kinds);
    if (squares > most)
        fail_msg("chi-squared %g of %u kinds", squares, kinds);
}

static void operations_magnitudes_and_signs_are_equally_likely(void **state) {
    (void)state;
    const struct philox_key key = random_key((enum random_use)77, 5);
    const struct image_augment trivial = {IMAGE_AUGMENT_TRIVIAL_WIDE, 0, 0};
    uint32_t operations[IMAGE_OPERATION_COUNT] = {0}, signs[2] = {0}, bins[IMAGE_AUGMENT_BINS] = {0};
    for (uint32_t i = 0; i < 400000; i++) {
        const struct philox_block random = random_at(key, 0, i);
        struct image_augment_step steps[IMAGE_AUGMENT_MAX_OPS];
        assert_int_equal(image_augment_choose(&trivial, 224, 224, &random, steps), 1);
        operations[steps[0].operation]++;
        if (steps[0].operation == IMAGE_OPERATION_ROTATE) {
            bins[lrint(fabs(steps[0].magnitude) / 4.5)]++;
            if (steps[0].magnitude != 0)
                signs[steps[0].magnitude < 0]++;
        }
    }
    assert_even(operations, IMAGE_OPERATION_COUNT, 13 + 60);
    assert_even(bins, IMAGE_AUGMENT_BINS, 30 + 90);
    assert_even(signs, 2, 20);
}

static void rand_augment_does_as_many_as_it_is_told_with_one_magnitude(void **state) {
    (void)state;
    const struct philox_key key = random_key((enum random_use)77, 6);
    const struct image_augment augment = {IMAGE_AUGMENT_RAND, 3, 9};
    uint32_t operations[3][IMAGE_OPERATION_COUNT] = {{0}},
             pairs[IMAGE_OPERATION_COUNT * IMAGE_OPERATION_COUNT] = {0};
    for (uint32_t i = 0; i < 100000; i++) {
        struct philox_block random[3];
        for (uint32_t k = 0; k < 3; k++)
            random[k] = random_at(key, k, i);
        struct image_augment_step steps[IMAGE_AUGMENT_MAX_OPS];
        assert_int_equal(image_augment_choose(&augment, 331, 662, random, steps), 3);
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t operation = steps[k].operation;
            const double magnitude = image_augment_magnitude(IMAGE_AUGMENT_RAND, operation, 9, 331, 662);
            operations[k][operation]++;
            assert_true(fabs(steps[k].magnitude) == magnitude);
            assert_true(image_augment_signed(operation) || steps[k].magnitude >= 0);
        }
        pairs[steps[0].operation * IMAGE_OPERATION_COUNT + steps[1].operation]++;
    }
    for (uint32_t k = 0; k < 3; k++)
        assert_even(operations[k], IMAGE_OPERATION_COUNT, 13 + 60);
    assert_even(pairs, COUNT_OF(pairs), 195 + 200);
}

static void words_choose_from_first_to_last(void **state) {
    (void)state;
    const struct image_augment trivial = {IMAGE_AUGMENT_TRIVIAL_WIDE, 0, 0};
    struct image_augment_step steps[IMAGE_AUGMENT_MAX_OPS];
    image_augment_choose(&trivial, 10, 10, &(struct philox_block){{0, 0, 0, 0}}, steps);
    assert_int_equal(steps[0].operation, IMAGE_OPERATION_IDENTITY);
    image_augment_choose(&trivial, 10, 10, &(struct philox_block){{UINT32_MAX, UINT32_MAX, 0, 0}}, steps);
    assert_int_equal(steps[0].operation, IMAGE_OPERATION_EQUALIZE);
    const uint32_t rotate = (uint32_t)((5.5 / 14) * 4294967296.0), half = 1u << 31;
    image_augment_choose(&trivial, 10, 10, &(struct philox_block){{rotate, UINT32_MAX, half - 1, 0}}, steps);
    assert_int_equal(steps[0].operation, IMAGE_OPERATION_ROTATE);
    assert_true(steps[0].magnitude == -135);
    image_augment_choose(&trivial, 10, 10, &(struct philox_block){{rotate, UINT32_MAX, half, 0}}, steps);
    assert_true(steps[0].magnitude == 135);
}

// Of torchvision, some with the bits of float32.
static void magnitudes_are_those_of_the_tables(void **state) {
    (void)state;
    static const struct {
        uint32_t kind, operation, bin;
        double magnitude;
    } known[] = {
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_SHEAR_X, 30, (double)0.3F},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_ROTATE, 9, 9},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_BRIGHTNESS, 20, 0.5999999642372131},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_TRANSLATE_X, 20, 67.67371368408203},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_TRANSLATE_Y, 30, (double)(float)(150.0 / 331 * 100)},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_POSTERIZE, 9, 7},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_POSTERIZE, 30, 4},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_SOLARIZE, 0, 1},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_SOLARIZE, 6, 0.800000011920929},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_SOLARIZE, 30, 0},
        {IMAGE_AUGMENT_RAND, IMAGE_OPERATION_EQUALIZE, 30, 0},
        {IMAGE_AUGMENT_TRIVIAL_WIDE, IMAGE_OPERATION_TRANSLATE_X, 30, 32},
        {IMAGE_AUGMENT_TRIVIAL_WIDE, IMAGE_OPERATION_ROTATE, 20, 90},
        {IMAGE_AUGMENT_TRIVIAL_WIDE, IMAGE_OPERATION_SHARPNESS, 30, (double)0.99F},
        {IMAGE_AUGMENT_TRIVIAL_WIDE, IMAGE_OPERATION_POSTERIZE, 30, 2},
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        const double found =
            image_augment_magnitude(known[i].kind, known[i].operation, known[i].bin, 224, 100);
        if (found != known[i].magnitude)
            fail_msg("%zu: %.17g, not %.17g", i, found, known[i].magnitude);
    }
}

// In scratch memory of exactly the size.
static void a_list_is_done_in_its_order(void **state) {
    (void)state;
    static const struct image_augment_step steps[] = {{IMAGE_OPERATION_ROTATE, 15},
                                                      {IMAGE_OPERATION_SHARPNESS, 0.9},
                                                      {IMAGE_OPERATION_IDENTITY, 0},
                                                      {IMAGE_OPERATION_SOLARIZE, 0.5},
                                                      {IMAGE_OPERATION_SHEAR_Y, -0.3}};
    static const uint32_t sizes[][3] = {{1, 1, 1}, {1, 1, 3}, {61, 47, 3}, {3, 3, 3}, {0, 0, 3}};
    const uint8_t fill[3] = {1, 2, 3};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const size_t bytes = (size_t)sizes[i][0] * sizes[i][1] * sizes[i][2];
        AUTO_FREE uint8_t *pixels = malloc(bytes + 1), *right = malloc(bytes + 1),
                          *scratch = malloc(bytes + !bytes);
        assert_true(pixels && right && scratch);
        image_draw(pixels, bytes);
        memcpy(right, pixels, bytes);
        struct image image = {pixels, sizes[i][0], sizes[i][1], sizes[i][2],
                              (size_t)sizes[i][0] * sizes[i][2]};
        assert_int_equal(image_augment_scratch(&image), bytes);
        image_augment_apply(&image, scratch, steps, COUNT_OF(steps), fill);
        image.pixels = right;
        image_rotate(&image, 15, fill, scratch);
        image_sharpness(&image, 1.9, scratch);
        image_solarize(&image, 127.5);
        image_shear_y(&image, -0.3, fill, scratch);
        assert_memory_equal(pixels, right, bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sines_are_the_c_librarys),
        cmocka_unit_test(quarter_turns_move_every_pixel),
        cmocka_unit_test(translations_move_by_whole_pixels),
        cmocka_unit_test(all_sets_locate_the_same_pixels),
        cmocka_unit_test(operations_magnitudes_and_signs_are_equally_likely),
        cmocka_unit_test(rand_augment_does_as_many_as_it_is_told_with_one_magnitude),
        cmocka_unit_test(words_choose_from_first_to_last),
        cmocka_unit_test(magnitudes_are_those_of_the_tables),
        cmocka_unit_test(a_list_is_done_in_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
