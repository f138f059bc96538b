// Views: golden vectors, and that parts of one split divide a dataset for every number of samples.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "order/selection.h"
#include "tests/unit/order_vectors.h"

#define MOST 300u

static void select_samples(const struct selection *selection, uint64_t *samples) {
    struct selector selector;
    selector_init(&selector, selection, NULL);
    for (uint64_t i = 0; i < selection->count; i++)
        samples[i] = i;
    selector_map(&selector, 0, 0, samples, (uint32_t)selection->count);
}

static struct selection make(uint32_t kind, uint64_t of, uint64_t first, uint64_t count, uint64_t seed) {
    return (struct selection){.kind = kind, .of = of, .first = first, .count = count, .seed = seed};
}

static void test_golden_splits(void **state) {
    (void)state;
    for (size_t at = 0; at < COUNT_OF(split_vectors); at++) {
        uint64_t samples[64];
        assert_in_range(split_vectors[at].count, 1, COUNT_OF(samples));
        struct selection selection =
            make(SELECTION_SPLIT_1, split_vectors[at].samples, split_vectors[at].first,
                 split_vectors[at].count, split_vectors[at].seed);
        select_samples(&selection, samples);
        assert_memory_equal(samples, split_vectors[at].selected, selection.count * sizeof *samples);
    }
}

static void test_golden_bounds(void **state) {
    (void)state;
    for (size_t at = 0; at < COUNT_OF(bound_vectors); at++)
        assert_int_equal(selection_bound(bound_vectors[at].samples, bound_vectors[at].millionths),
                         bound_vectors[at].bound);
}

static void test_zeros_select_all(void **state) {
    (void)state;
    uint64_t samples[] = {0, 5, UINT64_MAX - 1};
    struct selector selector;
    assert_int_equal(selection_list_bytes(&(struct selection){0}), 0);
    selector_init(&selector, &(struct selection){0}, NULL);
    selector_map(&selector, 0, 0, samples, 3);
    assert_true(samples[0] == 0 && samples[1] == 5 && samples[2] == UINT64_MAX - 1);
}

static void test_a_list_names_its_samples(void **state) {
    (void)state;
    const uint64_t list[] = {7, 2, 7, 0};
    uint64_t samples[] = {3, 0, 1, 2, 4, UINT64_MAX};
    struct selector selector;
    struct selection selection = make(SELECTION_LIST, 8, 0, COUNT_OF(list), 0);
    assert_int_equal(selection_list_bytes(&selection), sizeof list);
    selector_init(&selector, &selection, list);
    selector_map(&selector, 0, 0, samples, COUNT_OF(samples));
    assert_memory_equal(samples, ((uint64_t[]){0, 7, 2, 7, UINT64_MAX, UINT64_MAX}), sizeof samples);
}

static void test_a_range_is_in_order(void **state) {
    (void)state;
    uint64_t samples[4];
    struct selection selection = make(SELECTION_RANGE, 10, 3, 4, 0);
    select_samples(&selection, samples);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(samples[i], 3 + i);
}

// Positions come in any order, and some are none.
static void test_what_is_outside_is_no_sample(void **state) {
    (void)state;
    for (uint32_t kind = SELECTION_RANGE; kind <= SELECTION_SPLIT_1; kind++) {
        uint64_t samples[] = {4, UINT64_MAX, 0, 5, 3, 1ull << 63, 2}, inside[5];
        struct selection selection = make(kind, 50, 40, 5, 9);
        struct selector selector;
        selector_init(&selector, &selection, NULL);
        selector_map(&selector, 0, 0, samples, COUNT_OF(samples));
        select_samples(&selection, inside);
        assert_true(samples[1] == UINT64_MAX && samples[3] == UINT64_MAX && samples[5] == UINT64_MAX);
        assert_true(samples[0] == inside[4] && samples[2] == inside[0] && samples[4] == inside[3] &&
                    samples[6] == inside[2]);
    }
}

// Shares of three parts with bounds at these millionths: disjoint, and complete.
static void check_division(uint32_t kind, uint64_t of, const uint32_t *bounds, uint64_t seed) {
    uint32_t times[MOST] = {0};
    for (uint32_t part = 0; part < 3; part++) {
        uint64_t samples[MOST], first = selection_bound(of, bounds[part]);
        struct selection selection =
            make(kind, of, first, selection_bound(of, bounds[part + 1]) - first, seed);
        select_samples(&selection, samples);
        for (uint64_t i = 0; i < selection.count; i++) {
            assert_true(samples[i] < of);
            times[samples[i]]++;
        }
    }
    for (uint64_t sample = 0; sample < of; sample++)
        assert_int_equal(times[sample], 1);
}

static void test_parts_divide_every_dataset(void **state) {
    (void)state;
    static const uint32_t bounds[][4] = {{0, 800000, 900000, 1000000},
                                         {0, 333333, 666666, 1000000},
                                         {0, 0, 1, 1000000},
                                         {0, 999999, 1000000, 1000000}};
    for (uint64_t of = 1; of <= MOST; of++)
        for (size_t at = 0; at < COUNT_OF(bounds); at++)
            for (uint32_t kind = SELECTION_RANGE; kind <= SELECTION_SPLIT_1; kind++)
                check_division(kind, of, bounds[at], of * 31 + at);
}

// An epoch over a view with the seed of its split is not the split again.
static void test_a_split_is_not_an_epoch(void **state) {
    (void)state;
    uint64_t split[MOST], epoch[MOST];
    struct selection selection = make(SELECTION_SPLIT_1, MOST, 0, MOST, 7);
    struct order order;
    select_samples(&selection, split);
    order_init(&order, ORDER_FEISTEL_1, MOST, 7, 0);
    order_samples(&order, 0, MOST, epoch);
    assert_memory_not_equal(split, epoch, sizeof split);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_splits),
        cmocka_unit_test(test_golden_bounds),
        cmocka_unit_test(test_zeros_select_all),
        cmocka_unit_test(test_a_range_is_in_order),
        cmocka_unit_test(test_a_list_names_its_samples),
        cmocka_unit_test(test_what_is_outside_is_no_sample),
        cmocka_unit_test(test_parts_divide_every_dataset),
        cmocka_unit_test(test_a_split_is_not_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
