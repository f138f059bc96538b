// Parts of lists that a program brings: they are brought as the lists that they are.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/sizes.h"
#include "client/lib/own_view.h"
#include "order/selection.h"

#define COUNT 1001u

static int16_t numbers[COUNT]; // some of them below 0, for the daemon to complain about

static struct feed_view part_of_list(enum feed_view_kind kind, uint32_t begin, uint32_t end) {
    for (uint32_t i = 0; i < COUNT; i++)
        numbers[i] = (int16_t)(i * 77 - 9000);
    return (struct feed_view){.bytes = sizeof(struct feed_view),
                              .kind = kind,
                              .begin = begin,
                              .end = end,
                              .seed = 9,
                              .data = numbers,
                              .count = COUNT,
                              .dtype = FEED_I16};
}

// The numbers at `places`.
static void check(const struct feed_view *view, const uint64_t *places, uint64_t count) {
    struct own_view copy;
    struct error error = {0};
    assert_int_equal(own_view_copy(&copy, view, &error), 0);
    assert_int_equal(copy.what.kind, FEED_INDICES);
    assert_int_equal(copy.what.count, count);
    assert_true(!copy.what.begin && !copy.what.end && copy.what.dtype == FEED_I16);
    for (uint64_t i = 0; i < count; i++)
        assert_true(copy.words[i] == (uint64_t)(int64_t)numbers[places[i]]);
    assert_true(copy.hash == XXH3_64bits(copy.words, count * sizeof *copy.words));
    own_view_free(&copy);
}

static void test_ranges(void **state) {
    (void)state;
    uint64_t places[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        places[i] = i;
    const struct feed_view whole = part_of_list(FEED_RANGE, 0, 1000000);
    const struct feed_view first = part_of_list(FEED_RANGE, 0, 500000);
    const struct feed_view second = part_of_list(FEED_RANGE, 500000, 1000000);
    check(&whole, places, COUNT);
    check(&first, places, 500);
    check(&second, places + 500, 501);
}

static void test_splits(void **state) {
    (void)state;
    uint64_t places[COUNT];
    struct order order;
    order_init(&order, ORDER_FEISTEL_1, COUNT, 9, SELECTION_EPOCH);
    order_samples(&order, 0, COUNT, places);
    const struct feed_view whole = part_of_list(FEED_SPLIT, 0, 1000000);
    const struct feed_view first = part_of_list(FEED_SPLIT, 0, 300000);
    const struct feed_view second = part_of_list(FEED_SPLIT, 300000, 999999);
    check(&whole, places, COUNT);
    check(&first, places, 300);
    check(&second, places + 300, 700);
}

static void refuse(const struct feed_view *view, const char *part) {
    struct own_view copy;
    struct error error = {0};
    assert_int_equal(own_view_copy(&copy, view, &error), -EINVAL);
    if (!strstr(error.text, part))
        fail_msg("no \"%s\" in \"%s\"", part, error.text);
    own_view_free(&copy);
}

static void test_parts_that_cannot_be(void **state) {
    (void)state;
    struct feed_view view = part_of_list(FEED_RANGE, 500000, 499999);
    refuse(&view, "split: found 0.5 to 0.499999, wanted two fractions from 0 to 1");
    view = part_of_list(FEED_SPLIT, 500000, 1000001);
    refuse(&view, "split: found 0.5 to 1");
    view = part_of_list(FEED_SPLIT, 500000, 500001);
    refuse(&view, "split: 0.5 to 0.500001 of 1001 sample numbers contains none");
    view = part_of_list(FEED_RANGE, 0, 1000000);
    view.dtype = FEED_F16;
    refuse(&view, "indices: found f16, wanted integers");
    view.dtype = FEED_BOOL;
    refuse(&view, "indices: found a mask");
    view.count = 0;
    refuse(&view, "indices: found none");
    view = part_of_list(FEED_SPLIT, 0, 500000);
    view.data = NULL;
    refuse(&view, "indices: found 1001 of them at NULL");
}

// Of the dataset, which only the daemon knows.
static void test_no_list(void **state) {
    (void)state;
    struct own_view copy;
    struct error error = {0};
    struct feed_view view = part_of_list(FEED_SPLIT, 1, 2);
    view.data = NULL;
    view.count = 0;
    assert_int_equal(own_view_copy(&copy, &view, &error), 0);
    assert_true(copy.what.kind == FEED_SPLIT && copy.what.begin == 1 && copy.what.end == 2 && !copy.words);
    own_view_free(&copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_parts_that_cannot_be),
        cmocka_unit_test(test_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
