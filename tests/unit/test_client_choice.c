// Weights with a part of the samples, which a program brings: how often each sample counts follows the weights.
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

#define COUNT 9001u // samples; an odd number, and more than are looked up at once

static float numbers[COUNT];
static uint16_t listed[] = {8, 9000, 8, 0, 8, 1};

static struct feed_view weights_of(const struct feed_view *part) {
    for (uint32_t i = 0; i < COUNT; i++)
        numbers[i] = (float)i;
    return (struct feed_view){.bytes = sizeof(struct feed_view),
                              .kind = FEED_WEIGHTS,
                              .data = numbers,
                              .count = COUNT,
                              .dtype = FEED_F32,
                              .part = part};
}

static struct feed_view part_of(enum feed_view_kind kind, uint32_t begin, uint32_t end) {
    return (struct feed_view){
        .bytes = sizeof(struct feed_view), .kind = kind, .begin = begin, .end = end, .seed = 9};
}

static struct feed_view part_of_list(enum feed_view_kind kind, uint32_t begin, uint32_t end) {
    struct feed_view part = part_of(kind, begin, end);
    part.data = listed;
    part.count = COUNT_OF(listed);
    part.dtype = FEED_U16;
    return part;
}

static uint32_t times_at(const struct own_view *copy, uint64_t sample) {
    return (uint32_t)(copy->words[COUNT + sample / 2] >> (sample % 2 ? 32 : 0));
}

static void check(const struct feed_view *part, const uint32_t *times, uint64_t chosen) {
    const struct feed_view view = weights_of(part);
    struct own_view copy;
    struct error error = {0};
    assert_int_equal(own_view_copy(&copy, &view, &error), 0);
    assert_true(copy.what.kind == FEED_WEIGHTS && copy.what.count == COUNT && copy.what.dtype == FEED_F32);
    assert_true(copy.chooses);
    assert_int_equal(copy.word_count, COUNT + (COUNT + 1) / 2);
    assert_int_equal(copy.what.epoch_samples, chosen);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        assert_true(copy.words[i] == bits);
        if (times_at(&copy, i) != times[i])
            fail_msg("sample %u counts %u times, wanted %u", i, times_at(&copy, i), times[i]);
    }
    assert_int_equal(times_at(&copy, COUNT), 0);
    assert_true(copy.hash == XXH3_64bits(copy.words, copy.word_count * sizeof *copy.words));
    own_view_free(&copy);
}

static void test_parts_of_the_dataset(void **state) {
    (void)state;
    static uint32_t middle[COUNT], permuted[COUNT];
    static uint64_t places[COUNT];
    struct order order;
    order_init(&order, ORDER_FEISTEL_1, COUNT, 9, SELECTION_EPOCH);
    order_samples(&order, 0, COUNT, places);
    for (uint32_t i = COUNT / 4; i < COUNT / 2; i++)
        middle[i] = permuted[places[i]] = 1;
    const struct feed_view range = part_of(FEED_RANGE, 250000, 500000);
    const struct feed_view split = part_of(FEED_SPLIT, 250000, 500000);
    check(&range, middle, COUNT / 2 - COUNT / 4);
    check(&split, permuted, COUNT / 2 - COUNT / 4);
}

static void test_lists(void **state) {
    (void)state;
    static uint32_t times[COUNT];
    times[8] = 3;
    times[9000] = times[0] = times[1] = 1;
    const struct feed_view whole = part_of_list(FEED_INDICES, 0, 0);
    check(&whole, times, 6);
    times[8] = 2;
    times[0] = times[1] = 0;
    const struct feed_view first = part_of_list(FEED_RANGE, 0, 500000);
    check(&first, times, 3);
}

static void test_a_number_of_draws_stays(void **state) {
    (void)state;
    const struct feed_view part = part_of_list(FEED_INDICES, 0, 0);
    struct feed_view view = weights_of(&part);
    struct own_view copy;
    struct error error = {0};
    view.epoch_samples = 77;
    assert_int_equal(own_view_copy(&copy, &view, &error), 0);
    assert_int_equal(copy.what.epoch_samples, 77);
    own_view_free(&copy);
}

static void check_plain(const struct feed_view *view) {
    struct own_view copy;
    struct error error = {0};
    assert_int_equal(own_view_copy(&copy, view, &error), 0);
    assert_true(!copy.chooses && copy.word_count == COUNT && copy.what.epoch_samples == 0);
    own_view_free(&copy);
}

// The second as in a program that was built before there was `part`: what lies there is not looked at.
static void test_all_samples_are_no_part(void **state) {
    (void)state;
    const struct feed_view all = part_of(FEED_RANGE, 0, 1000000), some = part_of(FEED_RANGE, 0, 500000);
    struct feed_view view = weights_of(&all);
    check_plain(&view);
    view = weights_of(&some);
    view.bytes = offsetof(struct feed_view, part);
    check_plain(&view);
}

static void refuse(const struct feed_view *view, int code, const char *text) {
    struct own_view copy;
    struct error error = {0};
    assert_int_equal(own_view_copy(&copy, view, &error), code);
    if (!strstr(error.text, text))
        fail_msg("no \"%s\" in \"%s\"", text, error.text);
    own_view_free(&copy);
}

static void test_parts_that_cannot_be(void **state) {
    (void)state;
    static const int8_t below[] = {1, -2};
    const struct feed_view none = weights_of(NULL), some = part_of(FEED_RANGE, 0, 500000);
    struct feed_view part, view = weights_of(&part);
    part = none;
    refuse(&view, -EINVAL, "feed_view.part has weights itself");
    part = some;
    part.part = &some;
    refuse(&view, -EINVAL, "feed_view.part belongs to weights");
    refuse(&part, -EINVAL, "feed_view.part belongs to weights");
    part = some;
    part.bytes = 0;
    refuse(&view, -EINVAL, "feed_view.bytes is 0");
    part = part_of(FEED_RANGE, 500000, 1000001);
    refuse(&view, -EINVAL, "split: found 0.5 to 1");
    part = part_of(FEED_SPLIT, 500000, 500001);
    refuse(&view, -EINVAL, "split: 0.5 to 0.500001 of 9001 samples contains none");
    part = part_of_list(FEED_RANGE, 0, 1);
    refuse(&view, -EINVAL, "split: 0 to 1e-06 of 6 sample numbers contains none");
    part = part_of_list(FEED_INDICES, 0, 0);
    view.count = 9000;
    refuse(&view, -ERANGE, "indices: found sample number 9000 at index 1, wanted numbers from 0 to 8999");
    part.data = below;
    part.count = 2;
    part.dtype = FEED_I8;
    refuse(&view, -ERANGE, "indices: found sample number -2 at index 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_the_dataset),    cmocka_unit_test(test_lists),
        cmocka_unit_test(test_a_number_of_draws_stays), cmocka_unit_test(test_all_samples_are_no_part),
        cmocka_unit_test(test_parts_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
