// The order of windows of groups: golden vectors; every small division into groups; that groups and samples are
// mixed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "order/splitmix.h"
#include "order/window.h"
#include "tests/unit/window_vectors.h"

static struct window_groups *make_groups(uint64_t window, uint64_t count, const uint64_t *bounds) {
    struct window_groups *groups = malloc(window_groups_bytes(count));
    assert_non_null(groups);
    groups->window = window;
    groups->count = count;
    memcpy(groups->bounds, bounds, (count + 1) * sizeof *bounds);
    return groups;
}

static struct window_order *open_order(const struct window_groups *groups, uint64_t first, uint64_t samples,
                                       uint64_t seed) {
    struct window_order *order = NULL;
    assert_int_equal(
        window_groups_check(groups, window_groups_bytes(groups->count), groups->bounds[groups->count], NULL),
        0);
    assert_int_equal(window_order_open(groups, first, samples, seed, &order), 0);
    return order;
}

static void test_golden(void **state) {
    (void)state;
    for (size_t at = 0; at < COUNT_OF(window_vectors); at++) {
        AUTO_FREE struct window_groups *groups =
            make_groups(window_vectors[at].window, window_vectors[at].groups, window_vectors[at].bounds);
        struct window_order *order =
            open_order(groups, window_vectors[at].first, window_vectors[at].samples, window_vectors[at].seed);
        for (uint32_t i = 0; i < window_vectors[at].asked; i++) {
            uint64_t sample;
            window_order_samples(order, window_vectors[at].epoch, window_vectors[at].positions[i], 1,
                                 &sample);
            assert_int_equal(sample, window_vectors[at].found[i]);
        }
        window_order_close(order);
    }
}

// ---- Every small case ----------------------------------------------------------------------------------------

#define SMALL 8u

static uint64_t group_of(const struct window_groups *groups, uint64_t sample) {
    uint64_t group = 0;
    while (groups->bounds[group + 1] <= sample)
        group++;
    return group;
}

// The epoch is a permutation that takes the groups W at a time: each group belongs to one window, no window has more
// than W of them, and each but the last has W.
static void check_epoch(const struct window_groups *groups, uint64_t first, uint64_t count,
                        const uint64_t *samples) {
    uint64_t seen = 0, window_of[SMALL], left[SMALL] = {0}, begun = 0, open = 0;
    memset(window_of, 0xff, sizeof window_of);
    for (uint64_t i = 0; i < count; i++)
        left[group_of(groups, first + i)]++;
    for (uint64_t i = 0; i < count; i++) {
        assert_in_range(samples[i], 0, count - 1);
        assert_int_equal(seen & UINT64_C(1) << samples[i], 0);
        seen |= UINT64_C(1) << samples[i];
        const uint64_t group = group_of(groups, first + samples[i]);
        if (window_of[group] == UINT64_MAX) {
            // Only when the samples of all groups so far are used up may a group come that is one too many.
            if (begun % groups->window == 0)
                assert_int_equal(open, 0);
            window_of[group] = begun++ / groups->window;
            open += left[group];
        }
        open--;
    }
}

// `mask`: bit i says that a group begins at sample i + 1.
static void check_division(uint64_t samples, uint32_t mask, uint64_t window, uint64_t first, uint64_t count,
                           uint64_t epochs) {
    uint64_t bounds[SMALL + 1] = {0}, groups_count = 0, whole[SMALL + 2], one;
    for (uint64_t i = 1; i <= samples; i++)
        if (i == samples || mask >> (i - 1) & 1)
            bounds[++groups_count] = i;
    AUTO_FREE struct window_groups *groups = make_groups(window, groups_count, bounds);
    struct window_order *order = open_order(groups, first, count, mask);
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        window_order_samples(order, epoch, 0, SMALL + 2, whole);
        check_epoch(groups, first, count, whole);
        for (uint64_t i = count; i < SMALL + 2; i++)
            assert_int_equal(whole[i], UINT64_MAX);
        window_order_samples(order, epoch, mask % SMALL, 1, &one);
        assert_int_equal(one, whole[mask % SMALL]);
    }
    window_order_close(order);
}

static void test_every_small_division(void **state) {
    (void)state;
    for (uint64_t samples = 1; samples <= SMALL; samples++)
        for (uint32_t mask = 0; mask < 1u << (samples - 1); mask++)
            for (uint64_t window = 1; window <= 4; window++)
                check_division(samples, mask, window, 0, samples, 3);
}

static void test_every_part(void **state) {
    (void)state;
    for (uint32_t mask = 0; mask < 1u << (SMALL - 1); mask++)
        for (uint64_t first = 0; first < SMALL; first++)
            for (uint64_t count = 1; count <= SMALL - first; count++)
                check_division(SMALL, mask, 2, first, count, 1);
}

// ---- Larger ones ---------------------------------------------------------------------------------------------

enum {
    GROUPS = 500,
    MOST = 700,
    WINDOW = 7
};

static struct window_groups *make_many(void) {
    uint64_t bounds[GROUPS + 1] = {0};
    for (uint64_t i = 0; i < GROUPS; i++)
        bounds[i + 1] = bounds[i] + 1 + splitmix64(i) % MOST;
    return make_groups(WINDOW, GROUPS, bounds);
}

static void test_any_cut_finds_the_same(void **state) {
    (void)state;
    AUTO_FREE struct window_groups *groups = make_many();
    const uint64_t samples = groups->bounds[GROUPS];
    AUTO_FREE uint64_t *whole = calloc(samples, sizeof *whole), *cut = calloc(samples, sizeof *cut);
    AUTO_FREE uint8_t *seen = calloc(samples, 1);
    struct window_order *order = open_order(groups, 0, samples, 3);
    assert_true(whole && cut && seen);
    window_order_samples(order, 8, 0, (uint32_t)samples, whole);
    for (uint64_t i = 0; i < samples; i++)
        assert_int_equal(seen[whole[i]]++, 0);
    // Two epochs in turns, as a loader reads where one ends and the next begins.
    for (uint64_t at = 0, step = 1; at < samples; at += step, step = 1 + splitmix64(at) % 3000) {
        uint64_t other;
        window_order_samples(order, 9, at, 1, &other);
        window_order_samples(order, 8, at, (uint32_t)min_u64(step, samples - at), cut + at);
    }
    assert_memory_equal(cut, whole, samples * sizeof *cut);
    window_order_close(order);
}

// How often each of `cells` comes is compared with what chance allows: chi-square, with its mean and spread for that
// many cells. 6 spreads are exceeded once in 10^8 times, if at all; seeds are fixed, so the result never changes.
static void check_even(const uint32_t *counts, uint32_t cells, double each) {
    double sum = 0, free_cells = cells - 1.0;
    for (uint32_t i = 0; i < cells; i++)
        sum += (counts[i] - each) * (counts[i] - each) / each;
    assert_true((sum - free_cells) * (sum - free_cells) < 36 * 2 * free_cells);
}

// Over many epochs, each sample is as likely first in an epoch as any other of a group, and each group as any other;
// and a sample's place within its window is as likely as any other.
static void test_chances_are_even(void **state) {
    (void)state;
    enum {
        EPOCHS = 20000,
        CELLS = 24
    };
    uint64_t bounds[CELLS / 4 + 1];
    for (uint64_t i = 0; i <= CELLS / 4; i++)
        bounds[i] = 4 * i;
    AUTO_FREE struct window_groups *groups = make_groups(2, CELLS / 4, bounds);
    struct window_order *order = open_order(groups, 0, CELLS, 11);
    uint32_t first[CELLS] = {0}, place[CELLS] = {0}, pairs[CELLS * CELLS] = {0};
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint64_t samples[CELLS];
        window_order_samples(order, epoch, 0, CELLS, samples);
        first[samples[0]]++;
        for (uint32_t i = 0; i < CELLS; i++)
            if (samples[i] == 5)
                place[i]++;
        // Window against window: what is first in one says nothing of what is first in the next.
        pairs[samples[0] % 4 * 4 + samples[8] % 4]++;
    }
    check_even(first, CELLS, (double)EPOCHS / CELLS);
    check_even(place, CELLS, (double)EPOCHS / CELLS);
    check_even(pairs, 16, EPOCHS / 16.0);
    window_order_close(order);
}

static void test_groups_that_cannot_be(void **state) {
    (void)state;
    const uint64_t bounds[] = {0, 3, 3, 9};
    struct error error = {0};
    AUTO_FREE struct window_groups *groups = make_groups(2, 3, bounds);
    const uint64_t bytes = window_groups_bytes(3);
    assert_int_equal(window_groups_check(groups, bytes, 9, &error), -EINVAL);
    assert_string_equal(error.text, "found no samples in group 1, wanted some");
    groups->bounds[1] = 2;
    assert_int_equal(window_groups_check(groups, bytes, 9, &error), 0);
    assert_int_equal(window_groups_check(groups, bytes - 1, 9, &error), -EINVAL);
    assert_int_equal(window_groups_check(groups, 8, 9, &error), -EINVAL);
    assert_int_equal(window_groups_check(groups, bytes, 10, &error), -EINVAL);
    groups->bounds[0] = 1;
    assert_int_equal(window_groups_check(groups, bytes, 9, &error), -EINVAL);
    groups->bounds[0] = 0;
    groups->window = 0;
    assert_int_equal(window_groups_check(groups, bytes, 9, &error), -EINVAL);
    groups->window = 1;
    groups->count = WINDOW_MAX_GROUPS + 1;
    assert_int_equal(window_groups_check(groups, UINT64_MAX, 9, &error), -EINVAL);
    groups->count = 0;
    assert_int_equal(window_groups_check(groups, bytes, 0, &error), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),           cmocka_unit_test(test_every_small_division),
        cmocka_unit_test(test_every_part),       cmocka_unit_test(test_any_cut_finds_the_same),
        cmocka_unit_test(test_chances_are_even), cmocka_unit_test(test_groups_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
