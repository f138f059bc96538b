// The random parameters of image steps: golden vectors of an independent implementation, and their distributions.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/image/exact_math.h"
#include "daemon/image/parameters.h"
#include "daemon/image/step_rules.h"
#include "tests/unit/image_vectors.h"

static struct image_place place_of(uint32_t index) {
    return (struct image_place){image_places[index].seed, image_places[index].epoch,
                                image_places[index].position};
}

static struct image_random begin(uint64_t seed, uint64_t position, uint32_t step) {
    const struct image_place place = {seed, 0, position};
    struct image_random random;
    image_random_begin(&random, &place, step);
    return random;
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static struct image_step step_of(uint32_t range) {
    struct image_step step = {.kind = IMAGE_RANDOM_RESIZED_CROP};
    memcpy(&step.values[IMAGE_VALUE_AREA], image_ranges[range].area, sizeof image_ranges[range].area);
    memcpy(&step.values[IMAGE_VALUE_RATIO], image_ranges[range].ratio, sizeof image_ranges[range].ratio);
    return step;
}

// ---- Golden vectors -------------------------------------------------------------------------------------

static void golden_numbers(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(image_numbers); i++) {
        const struct image_place place = place_of(image_numbers[i].place);
        struct image_random random;
        image_random_begin(&random, &place, image_numbers[i].step);
        for (size_t k = 0; k < COUNT_OF(image_numbers[i].numbers); k++)
            assert_true(image_random_bits(&random) == image_numbers[i].numbers[k]);
        assert_true(bits_of(image_random_uniform(&random)) == image_numbers[i].uniform);
        for (size_t k = 0; k < COUNT_OF(image_counts); k++)
            assert_int_equal(image_random_below(&random, image_counts[k]), image_numbers[i].below[k]);
    }
}

static void golden_functions(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(image_exps); i++)
        assert_true(bits_of(exact_exp(double_of(image_exps[i].x))) == image_exps[i].result);
    for (size_t i = 0; i < COUNT_OF(image_logs); i++)
        assert_true(bits_of(exact_log(double_of(image_logs[i].x))) == image_logs[i].result);
}

static void golden_crops(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(image_crops); i++) {
        const struct image_step step = step_of(image_crops[i].range);
        const struct image_place place = place_of(image_crops[i].place);
        const uint32_t width = image_crops[i].width, height = image_crops[i].height;
        struct image_random random;
        struct image_rect rect;
        image_random_begin(&random, &place, 3);
        image_random_crop(&step, &random, width, height, &rect);
        assert_memory_equal(&rect, image_crops[i].crop, sizeof rect);
        image_random_begin(&random, &place, 33);
        image_random_erasure(&step, &random, width, height, &rect);
        assert_memory_equal(&rect, image_crops[i].erased, sizeof rect);
    }
}

static void golden_digests(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(image_digests); i++) {
        const struct image_step step = step_of(image_digests[i].range);
        uint64_t digest = 0;
        for (uint64_t position = 0; position < IMAGE_DIGEST_CROPS; position++) {
            const struct image_place place = {42, 1, position};
            struct image_random random;
            uint32_t rect[4];
            image_random_begin(&random, &place, 0);
            image_random_crop(&step, &random, image_digests[i].width, image_digests[i].height,
                              (struct image_rect *)rect);
            for (int k = 0; k < 4; k++)
                digest = digest * UINT64_C(0x5851f42d4c957f2d) + rect[k] + 1;
        }
        assert_true(digest == image_digests[i].digest);
    }
}

// ---- Exact functions ------------------------------------------------------------------------------------

// In units of the last place of the result. A long double of x86-64 has 11 bits more than a double.
static double error_of(double got, long double wanted) {
    return (double)(fabsl((long double)got - wanted) / ldexpl(1, ilogbl(wanted) - 52));
}

static void functions_are_within_their_bounds(void **state) {
    (void)state;
    struct image_random random = begin(1, 2, 3);
    double worst_exp = 0, worst_log = 0;
    for (int i = 0; i < 400000; i++) {
        const double x = (image_random_uniform(&random) * 2 - 1) * (i % 2 ? 700 : 7);
        const double y =
            ldexp(1 + image_random_uniform(&random), i % 3 ? (int)(i % 21) - 10 : (int)(i % 2000) - 1000);
        const double near = 1 + (image_random_uniform(&random) - 0.5) * ldexp(1, -(i % 50));
        worst_exp = fmax(worst_exp, error_of(exact_exp(x), expl((long double)x)));
        worst_log = fmax(worst_log, error_of(exact_log(y), logl((long double)y)));
        if (near != 1)
            worst_log = fmax(worst_log, error_of(exact_log(near), logl((long double)near)));
    }
    print_message("exp: %.3f units in the last place, log: %.3f\n", worst_exp, worst_log);
    assert_true(worst_exp < 1.5 && worst_log < 2.5);
    assert_true(exact_exp(0) == 1 && exact_log(1) == 0);
}

// ---- Distributions --------------------------------------------------------------------------------------

#define DRAWS 40000

static int compare_doubles(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// Kolmogorov and Smirnov's statistic of values that are to be uniform in [0, 1], times sqrt(n): above 1.95 once in
// 1000.
static double distance_from_uniform(double *values, size_t count) {
    double most = 0;
    qsort(values, count, sizeof *values, compare_doubles);
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs(values[i] - (double)i / (double)count));
        most = fmax(most, fabs(values[i] - (double)(i + 1) / (double)count));
    }
    return most * sqrt((double)count);
}

// Of numbers below `count`: the chi-square statistic, as a number of standard deviations above what is expected.
static double excess_of_counts(const uint32_t *found, uint32_t count, uint32_t draws) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double off = found[i] - (double)draws / count;
        sum += off * off / ((double)draws / count);
    }
    return (sum - (count - 1)) / sqrt(2.0 * (count - 1));
}

static void uniform_numbers(void **state) {
    (void)state;
    static double of_positions[DRAWS], of_steps[DRAWS], in_a_row[DRAWS];
    struct image_random row = begin(5, 5, 5);
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct image_random one = begin(9, i, 0), other = begin(9, 0, i);
        of_positions[i] = image_random_uniform(&one);
        of_steps[i] = image_random_uniform(&other);
        in_a_row[i] = image_random_uniform(&row);
    }
    assert_true(distance_from_uniform(of_positions, DRAWS) < 1.95);
    assert_true(distance_from_uniform(of_steps, DRAWS) < 1.95);
    assert_true(distance_from_uniform(in_a_row, DRAWS) < 1.95);
}

static void numbers_below(void **state) {
    (void)state;
    static const uint32_t counts[] = {2, 3, 7, 10, 289, 1000};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        AUTO_FREE uint32_t *found = calloc(counts[i], sizeof *found);
        assert_non_null(found);
        for (uint32_t k = 0; k < 100 * counts[i]; k++) {
            struct image_random random = begin(i, k, 1);
            const uint32_t number = image_random_below(&random, counts[i]);
            assert_true(number < counts[i]);
            found[number]++;
        }
        assert_true(excess_of_counts(found, counts[i], 100 * counts[i]) < 4);
    }
}

// In an image so large that every try fits: the share of the area and the logarithm of the ratio are uniform, and so is
// the place among those where the crop fits.
static void crops_are_uniform(void **state) {
    (void)state;
    static double areas[DRAWS], ratios[DRAWS], lefts[DRAWS], tops[DRAWS];
    struct image_step step = step_of(0);
    step.values[IMAGE_VALUE_AREA + 1] = 0.5f;
    const double side = 60000, least = log(0.75), most = log(4.0 / 3);
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct image_random random = begin(77, i, 0);
        struct image_rect crop;
        image_random_crop(&step, &random, 60000, 60000, &crop);
        areas[i] = ((double)crop.width * crop.height / side / side - 0.08) / 0.42;
        ratios[i] = (log((double)crop.width / crop.height) - least) / (most - least);
        lefts[i] = crop.x / (side - crop.width);
        tops[i] = crop.y / (side - crop.height);
    }
    assert_true(distance_from_uniform(areas, DRAWS) < 1.95);
    assert_true(distance_from_uniform(ratios, DRAWS) < 1.95);
    assert_true(distance_from_uniform(lefts, DRAWS) < 1.95);
    assert_true(distance_from_uniform(tops, DRAWS) < 1.95);
}

// As torchvision's RandomErasing draws them: the share of the area, the logarithm of height / width, and the place
// among those where the rectangle fits are uniform. In an image so large that every try fits, which takes a smaller
// share than by default; the second range of ratios tells height from width.
static void erasures_are_uniform(void **state) {
    (void)state;
    static const float settings[][4] = {{0.02f, 0.3f, 0.3f, 3.3f}, {0.1f, 0.3f, 0.5f, 3}};
    static double areas[DRAWS], ratios[DRAWS], lefts[DRAWS], tops[DRAWS];
    const double side = 60000;
    for (size_t k = 0; k < COUNT_OF(settings); k++) {
        const float *setting = settings[k];
        const double least = log((double)setting[2]), most = log((double)setting[3]);
        struct image_step step = {.kind = IMAGE_ERASE};
        memcpy(&step.values[IMAGE_VALUE_AREA], setting, sizeof settings[k]);
        for (uint32_t i = 0; i < DRAWS; i++) {
            struct image_random random = begin(81 + k, i, 33);
            struct image_rect rect;
            image_random_erasure(&step, &random, 60000, 60000, &rect);
            areas[i] = (double)rect.width * rect.height / side / side - (double)setting[0];
            areas[i] /= (double)setting[1] - (double)setting[0];
            ratios[i] = (log((double)rect.height / rect.width) - least) / (most - least);
            lefts[i] = rect.x / (side - rect.width);
            tops[i] = rect.y / (side - rect.height);
        }
        assert_true(distance_from_uniform(areas, DRAWS) < 1.95);
        assert_true(distance_from_uniform(ratios, DRAWS) < 1.95);
        assert_true(distance_from_uniform(lefts, DRAWS) < 1.95);
        assert_true(distance_from_uniform(tops, DRAWS) < 1.95);
    }
}

// torchvision's, where a configuration says nothing.
static void defaults_of_erase(void **state) {
    (void)state;
    struct image_step step = {.kind = IMAGE_ERASE};
    image_step_defaults(&step);
    assert_memory_equal(&step.values[IMAGE_VALUE_AREA], ((float[]){0.02f, 0.33f, 0.3f, 3.3f}),
                        4 * sizeof(float));
    assert_memory_equal(&step.values[IMAGE_VALUE_FILL], ((float[]){0, 0, 0}), 3 * sizeof(float));
}

static void chances_and_factors(void **state) {
    (void)state;
    static double factors[DRAWS];
    static const float chances[] = {0, 0.1f, 0.5f, 0.999f, 1};
    struct image_step step = {.values = {0.25f, 1.5f}};
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct image_random random = begin(78, i, 40);
        factors[i] = (image_random_factor(&step, &random) - 0.25) / 1.25;
    }
    assert_true(distance_from_uniform(factors, DRAWS) < 1.95);
    for (size_t k = 0; k < COUNT_OF(chances); k++) {
        uint32_t found = 0;
        step.values[IMAGE_VALUE_CHANCE] = chances[k];
        for (uint32_t i = 0; i < DRAWS; i++) {
            struct image_random random = begin(79, i, 33);
            found += image_random_happens(&step, &random);
        }
        const double wanted = DRAWS * (double)chances[k];
        assert_true(fabs(found - wanted) <= 4 * sqrt(wanted * (1 - (double)chances[k])));
    }
}

// ---- Every crop is one ----------------------------------------------------------------------------------

static void check_rects(uint32_t width, uint32_t height, uint32_t range, uint64_t position) {
    const struct image_step step = step_of(range);
    struct image_random random = begin(80, position, 0);
    struct image_rect rect;
    image_random_crop(&step, &random, width, height, &rect);
    assert_true(rect.width >= 1 && rect.height >= 1);
    assert_true((uint64_t)rect.x + rect.width <= width && (uint64_t)rect.y + rect.height <= height);
    random = begin(80, position, 32);
    image_random_erasure(&step, &random, width, height, &rect);
    assert_true((uint64_t)rect.x + rect.width <= width && (uint64_t)rect.y + rect.height <= height);
    assert_true(rect.width < width && rect.height < height);
}

static void every_crop_lies_in_the_image(void **state) {
    (void)state;
    for (uint32_t range = 0; range < COUNT_OF(image_ranges); range++) {
        for (uint32_t width = 1; width <= 24; width++)
            for (uint32_t height = 1; height <= 24; height++)
                for (uint64_t position = 0; position < 20; position++)
                    check_rects(width, height, range, position);
        for (uint64_t position = 0; position < 500; position++) {
            check_rects(1, 5000, range, position);
            check_rects(5000, 1, range, position);
            check_rects(65500, 3, range, position);
            check_rects(65535, 65535, range, position);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_numbers),
        cmocka_unit_test(golden_functions),
        cmocka_unit_test(golden_crops),
        cmocka_unit_test(golden_digests),
        cmocka_unit_test(functions_are_within_their_bounds),
        cmocka_unit_test(uniform_numbers),
        cmocka_unit_test(numbers_below),
        cmocka_unit_test(crops_are_uniform),
        cmocka_unit_test(erasures_are_uniform),
        cmocka_unit_test(defaults_of_erase),
        cmocka_unit_test(chances_and_factors),
        cmocka_unit_test(every_crop_lies_in_the_image),
    };
    return cmocka_run_group_tests_name("image parameters", tests, NULL, NULL);
}
