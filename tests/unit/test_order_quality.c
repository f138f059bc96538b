// No statistic shows the permutation to be anything but random: tiny epochs, the traces that too few Feistel
// rounds leave, neighbours within an epoch, neighbouring epochs and seeds. Every seed is fixed, so that each test
// gives the same verdict at every run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "order/order.h"

// About one of 150 thousand fair statistics is beyond this.
#define BEYOND_CHANCE 4.5

#define assert_chance(z)                                                                                     \
    do {                                                                                                     \
        double beyond = (z);                                                                                 \
        if (!(fabs(beyond) < BEYOND_CHANCE))                                                                 \
            fail_msg("%s is %.1f standard deviations from chance", #z, beyond);                              \
    } while (0)

static uint64_t *allocate(size_t count) {
    uint64_t *words = calloc(count, sizeof *words);
    assert_non_null(words);
    return words;
}

static void fill(uint64_t samples, uint64_t seed, uint64_t epoch, uint64_t *values) {
    struct order order;
    order_init(&order, ORDER_FEISTEL_1, samples, seed, epoch);
    order_samples(&order, 0, (uint32_t)samples, values);
}

// Chi-square of `cells` counts that should be equal, as a standard normal deviate (Wilson and Hilferty).
static double uniformity(const uint64_t *counts, size_t cells, size_t degrees) {
    double total = 0, chi = 0;
    for (size_t cell = 0; cell < cells; cell++)
        total += (double)counts[cell];
    const double expected = total / (double)cells;
    for (size_t cell = 0; cell < cells; cell++)
        chi += ((double)counts[cell] - expected) * ((double)counts[cell] - expected) / expected;
    const double spread = 2 / (9 * (double)degrees);
    return (cbrt(chi / (double)degrees) - (1 - spread)) / sqrt(spread);
}

static double deviation(double found, double trials, double probability) {
    return (found - trials * probability) / sqrt(trials * probability * (1 - probability));
}

// ---- tiny epochs: over many seeds all permutations come about equally often

static size_t permutation_number(const uint64_t *values, size_t count) {
    size_t number = 0;
    for (size_t at = 0; at < count; at++) {
        size_t smaller = 0;
        for (size_t behind = at + 1; behind < count; behind++)
            smaller += values[behind] < values[at];
        number = number * (count - at) + smaller;
    }
    return number;
}

static void assert_all_permutations(uint64_t samples, bool by_epoch) {
    size_t cells = 1;
    for (uint64_t factor = 2; factor <= samples; factor++)
        cells *= factor;
    const uint64_t trials = cells * 5 > 20000 ? cells * 5 : 20000;
    AUTO_FREE uint64_t *counts = allocate(cells);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t values[8];
        fill(samples, by_epoch ? 1 : trial, by_epoch ? trial : 0, values);
        counts[permutation_number(values, samples)]++;
    }
    assert_chance(uniformity(counts, cells, cells - 1));
}

static void test_tiny_all_permutations(void **state) {
    (void)state;
    for (uint64_t samples = 2; samples <= 8; samples++)
        assert_all_permutations(samples, samples % 2);
    assert_all_permutations(3, false);
    assert_all_permutations(4, true);
}

// Too many permutations to count each: half of them are odd, ...
static void test_tiny_parity(void **state) {
    (void)state;
    enum {
        TRIALS = 3000
    };
    static const uint64_t sizes[] = {9, 10, 11, 12, 13, 14, 15, 16, 17, 32, 64, 256};
    for (size_t at = 0; at < COUNT_OF(sizes); at++) {
        uint64_t odd = 0, values[256];
        for (uint64_t trial = 0; trial < TRIALS; trial++) {
            uint64_t inversions = 0;
            fill(sizes[at], trial, 2, values);
            for (uint64_t p = 0; p < sizes[at]; p++)
                for (uint64_t q = 0; q < p; q++)
                    inversions += values[q] > values[p];
            odd += inversions % 2;
        }
        assert_chance(deviation((double)odd, TRIALS, 0.5));
    }
}

// ... and any three positions hold any three different samples.
static void test_tiny_triples(void **state) {
    (void)state;
    for (uint64_t samples = 9; samples <= 16; samples++) {
        const uint64_t cells = samples * (samples - 1) * (samples - 2);
        AUTO_FREE uint64_t *counts = allocate(cells);
        for (uint64_t trial = 0; trial < cells * 6; trial++) {
            uint64_t values[16];
            fill(samples, trial, trial % 3, values);
            const uint64_t a = values[0], b = values[1] - (values[1] > a);
            const uint64_t low = values[0] < values[1] ? values[0] : values[1];
            const uint64_t high = values[0] < values[1] ? values[1] : values[0];
            const uint64_t last = values[samples - 1];
            counts[(a * (samples - 1) + b) * (samples - 2) + last - (last > low) - (last > high)]++;
        }
        assert_chance(uniformity(counts, cells, cells - 1));
    }
}

// ---- traces of the rounds: of two positions that share a half, how often the samples share a half and differ in
// the other one by what the positions differ. It is the strongest trace of few rounds; 7 still show it here.

enum {
    SIDE = 16,
    CODEBOOK = SIDE * SIDE
};

static void count_traces(const uint64_t *values, uint64_t traces[4]) {
    for (uint64_t shared = 0; shared < SIDE; shared++)
        for (uint64_t one = 0; one < SIDE; one++)
            for (uint64_t other = one + 1; other < SIDE; other++) {
                const uint64_t x = values[one * SIDE + shared], y = values[other * SIDE + shared];
                const uint64_t u = values[shared * SIDE + one], v = values[shared * SIDE + other];
                const uint64_t high = (other - one) * SIDE;
                traces[0] += (y - x) % CODEBOOK == high;
                traces[1] += x / SIDE == y / SIDE && (y - x) % SIDE == other - one;
                traces[2] += (v - u) % CODEBOOK == high;
                traces[3] += u / SIDE == v / SIDE && (v - u) % SIDE == other - one;
            }
}

static void test_no_trace_of_rounds(void **state) {
    (void)state;
    enum {
        TRIALS = 10000
    };
    uint64_t traces[4] = {0}, values[CODEBOOK];
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        fill(CODEBOOK, trial, 5, values);
        count_traces(values, traces);
    }
    const double pairs = (double)TRIALS * SIDE * SIDE * (SIDE - 1) / 2;
    for (size_t at = 0; at < COUNT_OF(traces); at++)
        assert_chance(deviation((double)traces[at], pairs, 1.0 / (CODEBOOK - 1)));
}

// ---- within one epoch

static const uint64_t epoch_sizes[] = {1000, 4096, 50000, 60000, 65537, 262144};

static double correlation(const uint64_t *values, uint64_t samples, uint64_t lag) {
    const double mean = ((double)samples - 1) / 2, variance = ((double)samples * (double)samples - 1) / 12;
    double sum = 0;
    for (uint64_t p = 0; p < samples; p++)
        sum += ((double)values[p] - mean) * ((double)values[(p + lag) % samples] - mean);
    return sum / variance / sqrt((double)samples);
}

static void test_serial_correlation(void **state) {
    (void)state;
    static const uint64_t lags[] = {1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 64, 128, 256, 499};
    for (size_t at = 0; at < COUNT_OF(epoch_sizes); at++) {
        AUTO_FREE uint64_t *values = allocate(epoch_sizes[at]);
        fill(epoch_sizes[at], 7, at, values);
        for (size_t lag = 0; lag < COUNT_OF(lags); lag++)
            assert_chance(correlation(values, epoch_sizes[at], lags[lag]));
    }
}

// Steps from one sample to the next are of every size, and no sample is followed by its neighbour too often.
static void test_steps(void **state) {
    (void)state;
    for (size_t at = 0; at < COUNT_OF(epoch_sizes); at++) {
        const uint64_t samples = epoch_sizes[at];
        AUTO_FREE uint64_t *values = allocate(samples);
        uint64_t steps[50] = {0}, neighbours = 0;
        for (uint64_t epoch = 0; epoch < 10; epoch++) {
            fill(samples, 42, epoch, values);
            for (uint64_t p = 0; p + 1 < samples; p++) {
                const uint64_t step = (values[p + 1] + samples - values[p]) % samples;
                steps[step * COUNT_OF(steps) / samples]++;
                neighbours += step == 1;
            }
        }
        assert_chance(uniformity(steps, COUNT_OF(steps), COUNT_OF(steps) - 1));
        assert_true(fabs((double)neighbours - 10) < 15); // Poisson of mean 10
    }
}

static void test_position_against_sample(void **state) {
    (void)state;
    enum {
        BOXES = 25
    };
    for (size_t at = 0; at < COUNT_OF(epoch_sizes); at++) {
        const uint64_t samples = epoch_sizes[at] / BOXES * BOXES; // so that the boxes are of one size
        AUTO_FREE uint64_t *values = allocate(samples);
        uint64_t boxes[BOXES * BOXES] = {0};
        for (uint64_t seed = 0; seed < 10; seed++) {
            fill(samples, seed, 0, values);
            for (uint64_t p = 0; p < samples; p++)
                boxes[p * BOXES / samples * BOXES + values[p] * BOXES / samples]++;
        }
        // Each permutation fills rows and columns of boxes evenly, so the counts spread a little less.
        assert_chance(uniformity(boxes, COUNT_OF(boxes), (BOXES - 1) * (BOXES - 1)));
    }
}

// Low bits and high bits of samples at neighbouring positions of an epoch too large to list.
static void test_bits_of_huge(void **state) {
    (void)state;
    enum {
        COUNT = 1 << 16
    };
    AUTO_FREE uint64_t *values = allocate(COUNT);
    struct order order;
    order_init(&order, ORDER_FEISTEL_1, UINT64_C(1) << 63, 1, 1);
    order_samples(&order, 0, COUNT, values);
    for (uint32_t bit = 0; bit < 63; bit++) {
        uint64_t set = 0, turned = 0;
        for (size_t p = 0; p < COUNT; p++) {
            set += values[p] >> bit & 1;
            turned += (values[p] ^ values[p ^ 1]) >> bit & 1;
        }
        assert_chance(deviation((double)set, COUNT, 0.5));
        assert_chance(deviation((double)turned / 2, COUNT / 2.0, 0.5));
    }
}

// ---- between epochs, seeds and sizes

// Two orders of the same size are independent: they agree about once, and their difference is of every size.
static void assert_independent(const uint64_t *one, const uint64_t *other, uint64_t samples,
                               uint64_t *agreements, uint64_t differences[20]) {
    for (uint64_t p = 0; p < samples; p++) {
        *agreements += one[p] == other[p];
        differences[(other[p] + samples - one[p]) % samples * 20 / samples]++;
    }
}

static void compare_orders(uint64_t seed_step, uint64_t epoch_step) {
    enum {
        SAMPLES = 1000,
        TRIALS = 400
    };
    uint64_t one[SAMPLES], other[SAMPLES], agreements = 0, differences[20] = {0};
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        fill(SAMPLES, trial, trial % 10, one);
        fill(SAMPLES, trial + seed_step, trial % 10 + epoch_step, other);
        assert_independent(one, other, SAMPLES, &agreements, differences);
    }
    assert_chance(deviation((double)agreements, (double)TRIALS * SAMPLES, 1.0 / SAMPLES));
    assert_chance(uniformity(differences, COUNT_OF(differences), COUNT_OF(differences) - 1));
}

static void test_neighbouring_seeds_and_epochs(void **state) {
    (void)state;
    compare_orders(1, 0);
    compare_orders(0, 1);
    compare_orders(1, 1);
    compare_orders(1, UINT64_MAX); // seed + 1, epoch - 1
    compare_orders(UINT64_MAX, 1);
    for (uint32_t bit = 1; bit < 64; bit++) {
        compare_orders(UINT64_C(1) << bit, 0);
        compare_orders(0, UINT64_C(1) << bit);
    }
}

static int compare(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

// No two orders have a key in common, also not in different rounds: orders whose rounds are the same but for a
// shift are related in a way that the counts above cannot see. One splitmix64 step lies between some of the seeds.
static void test_no_key_twice(void **state) {
    (void)state;
    enum {
        SEEDS = 40,
        EPOCHS = 20,
        KEYS = COUNT_OF(((struct order *)0)->keys)
    };
    AUTO_FREE uint64_t *keys = allocate(SEEDS * EPOCHS * KEYS);
    uint64_t *next = keys;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++, next += KEYS) {
            struct order order;
            order_init(&order, ORDER_FEISTEL_1, 1000, seed / 4 + seed % 4 * 0x9e3779b97f4a7c15u, epoch);
            memcpy(next, order.keys, sizeof order.keys);
        }
    qsort(keys, SEEDS * EPOCHS * KEYS, sizeof *keys, compare);
    for (size_t at = 1; at < SEEDS * EPOCHS * KEYS; at++)
        assert_true(keys[at - 1] != keys[at]);
}

static void test_seed_and_epoch_are_no_pair(void **state) {
    (void)state;
    enum {
        SAMPLES = 1000,
        SEEDS = 30
    };
    uint64_t one[SAMPLES], other[SAMPLES], agreements = 0, differences[20] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint64_t epoch = 0; epoch < seed; epoch++) {
            fill(SAMPLES, seed, epoch, one);
            fill(SAMPLES, epoch, seed, other);
            assert_independent(one, other, SAMPLES, &agreements, differences);
        }
    assert_chance(deviation((double)agreements, SEEDS * (SEEDS - 1) / 2.0 * SAMPLES, 1.0 / SAMPLES));
    assert_chance(uniformity(differences, COUNT_OF(differences), COUNT_OF(differences) - 1));
}

// A dataset that grew by one sample gets another order, not the old one with a sample put in.
static void test_neighbouring_sizes(void **state) {
    (void)state;
    enum {
        TRIALS = 500,
        BASE = 700
    };
    uint64_t one[BASE], other[BASE + 1], agreements = 0;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        fill(BASE, trial, 0, one);
        fill(BASE + 1, trial, 0, other);
        for (uint64_t p = 0; p < BASE; p++)
            agreements += one[p] == other[p];
    }
    assert_chance(deviation((double)agreements, (double)TRIALS * BASE, 1.0 / (BASE + 1)));
}

// The first sample over successive epochs of one seed, as a person watching the start of each epoch sees it.
static void test_first_sample_over_epochs(void **state) {
    (void)state;
    enum {
        SAMPLES = 100,
        EPOCHS = 100000
    };
    uint64_t counts[SAMPLES] = {0}, repeats = 0, last = SAMPLES;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        struct order order;
        order_init(&order, ORDER_FEISTEL_1, SAMPLES, 7, epoch);
        const uint64_t sample = order_sample(&order, 0);
        counts[sample]++;
        repeats += sample == last;
        last = sample;
    }
    assert_chance(uniformity(counts, SAMPLES, SAMPLES - 1));
    assert_chance(deviation((double)repeats, EPOCHS - 1, 1.0 / SAMPLES));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_all_permutations),
        cmocka_unit_test(test_tiny_parity),
        cmocka_unit_test(test_tiny_triples),
        cmocka_unit_test(test_no_trace_of_rounds),
        cmocka_unit_test(test_serial_correlation),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_position_against_sample),
        cmocka_unit_test(test_bits_of_huge),
        cmocka_unit_test(test_neighbouring_seeds_and_epochs),
        cmocka_unit_test(test_no_key_twice),
        cmocka_unit_test(test_seed_and_epoch_are_no_pair),
        cmocka_unit_test(test_neighbouring_sizes),
        cmocka_unit_test(test_first_sample_over_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
