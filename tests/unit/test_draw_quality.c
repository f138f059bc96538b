// No statistic shows draws by weight to be anything but that: how often samples come, and neighbouring positions,
// epochs and seeds. Every seed is fixed, so that each test gives the same verdict at every run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "base/dtype.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "order/draw.h"
#include "order/shares.h"

// About one of 150 thousand fair statistics is beyond this.
#define BEYOND_CHANCE 4.5

#define SAMPLES 100u
#define DEGREES 85u // of freedom: 14 of the weights are 0
#define DRAWS   1000000u
#define AT_ONCE 1000u

struct drawer {
    struct draw_table table;
    uint64_t memory[2 * SAMPLES]; // room for draw_bytes(SAMPLES)
};

static void prepare(struct drawer *drawer, const uint64_t *weights, uint64_t count) {
    assert_in_range(draw_bytes(count), 1, sizeof drawer->memory);
    for (uint64_t i = 0; i < count; i++)
        drawer->memory[i] = weights[i];
    assert_int_equal(shares_sum(DTYPE_U64, drawer->memory, count), 0);
    draw_prepare(drawer->memory, count);
    draw_init(&drawer->table, drawer->memory, count);
}

static void draw(const struct drawer *drawer, uint64_t seed, uint64_t epoch, uint64_t first,
                 uint64_t samples[AT_ONCE]) {
    for (uint64_t i = 0; i < AT_ONCE; i++)
        samples[i] = first + i;
    draw_samples(&drawer->table, seed, epoch, AT_ONCE, samples);
}

// Chi-square of counts against weights, as a standard normal deviate (Wilson and Hilferty).
static double misfit(const uint64_t *counts, const uint64_t *weights, size_t cells, size_t degrees) {
    double total = 0, sum = 0, chi = 0;
    for (size_t cell = 0; cell < cells; cell++) {
        total += (double)counts[cell];
        sum += (double)weights[cell];
    }
    for (size_t cell = 0; cell < cells; cell++) {
        const double expected = total * (double)weights[cell] / sum;
        if (weights[cell] == 0)
            assert_int_equal(counts[cell], 0); // never drawn
        else
            chi += ((double)counts[cell] - expected) * ((double)counts[cell] - expected) / expected;
    }
    const double spread = 2 / (9 * (double)degrees);
    return (cbrt(chi / (double)degrees) - (1 - spread)) / sqrt(spread);
}

// Every seventh is 0, the others are 1, 2, 3, ...
static void make_weights(uint64_t *weights) {
    for (uint64_t i = 0; i < SAMPLES; i++)
        weights[i] = i % 7 == 5 ? 0 : i + 1;
}

static void count_samples(const struct drawer *drawer, uint64_t seed, uint64_t epochs, uint64_t *counts) {
    uint64_t samples[AT_ONCE];
    for (uint64_t at = 0; at < DRAWS; at += AT_ONCE) {
        draw(drawer, seed, at / AT_ONCE % epochs, at / AT_ONCE / epochs * AT_ONCE, samples);
        for (uint64_t i = 0; i < AT_ONCE; i++)
            counts[samples[i]]++;
    }
}

static void check_counts(uint64_t seed, uint64_t epochs) {
    uint64_t weights[SAMPLES], counts[SAMPLES] = {0};
    struct drawer drawer;
    make_weights(weights);
    prepare(&drawer, weights, SAMPLES);
    count_samples(&drawer, seed, epochs, counts);
    const double found = misfit(counts, weights, SAMPLES, DEGREES);
    if (!(fabs(found) < BEYOND_CHANCE))
        fail_msg("%.1f standard deviations from chance", found);
}

static void test_samples_come_as_their_weights_say(void **state) {
    (void)state;
    check_counts(0, 1);
    check_counts(7, 1);
    check_counts(UINT64_MAX, 1);
    check_counts(3, 1000); // the first thousand draws of many epochs
}

static void check_noticed(const uint64_t *wrong) {
    uint64_t weights[SAMPLES], counts[SAMPLES] = {0};
    struct drawer drawer;
    make_weights(weights);
    prepare(&drawer, wrong, SAMPLES);
    count_samples(&drawer, 7, 1, counts);
    assert_true(misfit(counts, weights, SAMPLES, DEGREES) > BEYOND_CHANCE);
}

// The statistic notices a table with one weight that is a tenth too large, and one with two weights exchanged.
static void test_a_wrong_table_is_noticed(void **state) {
    (void)state;
    uint64_t larger[SAMPLES], exchanged[SAMPLES];
    make_weights(larger);
    make_weights(exchanged);
    larger[79] += larger[79] / 10;
    check_noticed(larger);
    exchanged[49] = 56;
    exchanged[55] = 50;
    check_noticed(exchanged);
}

// ---- Neighbours ------------------------------------------------------------------------------------------------

#define SIDES 16u

// Draws of equal weights in pairs, the second of which is some positions, epochs or seeds on.
static void check_pairs(uint64_t positions, uint64_t epochs, uint64_t seeds) {
    uint64_t equal[SIDES * SIDES], counts[SIDES * SIDES] = {0}, left[AT_ONCE], right[AT_ONCE];
    struct drawer drawer;
    for (uint64_t i = 0; i < SIDES * SIDES; i++)
        equal[i] = 1;
    prepare(&drawer, equal, SIDES);
    for (uint64_t at = 0; at < DRAWS; at += AT_ONCE) {
        const uint64_t part = at / AT_ONCE;
        draw(&drawer, part % 8, part % 32 / 8, part * 2 * AT_ONCE, left);
        draw(&drawer, part % 8 + seeds, part % 32 / 8 + epochs, part * 2 * AT_ONCE + positions, right);
        for (uint64_t i = 0; i < AT_ONCE; i++)
            counts[left[i] * SIDES + right[i]]++;
    }
    const double found = misfit(counts, equal, SIDES * SIDES, SIDES * SIDES - 1);
    if (!(fabs(found) < BEYOND_CHANCE))
        fail_msg("pairs %llu, %llu, %llu apart are %.1f standard deviations from chance",
                 (unsigned long long)positions, (unsigned long long)epochs, (unsigned long long)seeds, found);
}

static void test_neighbours_are_independent(void **state) {
    (void)state;
    check_pairs(1, 0, 0);
    check_pairs(2, 0, 0);
    check_pairs(64, 0, 0);
    check_pairs(0, 4, 0);
    check_pairs(0, 1ull << 32, 0);
    check_pairs(0, 0, 8);
    check_pairs(0, 0, 1ull << 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_come_as_their_weights_say),
        cmocka_unit_test(test_a_wrong_table_is_noticed),
        cmocka_unit_test(test_neighbours_are_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
