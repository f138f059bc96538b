// Where a mixture begins and ends, with which weights it can be made, and how it continues from the counts of another
// one.
#include "base/scope.h"
#include "tests/unit/mix_fixture.h"

static void assert_no_source(struct mix_draw found) {
    assert_int_equal(found.source, MIX_NO_SOURCE);
    assert_int_equal(found.number, UINT64_MAX);
}

static void test_outside_is_no_source(void **state) {
    (void)state;
    static const uint32_t weights[] = {2, 1};
    AUTO_FREE struct mix *mix = open_mix(weights, 2, MIX_LISTED);
    struct mix_base base = {.start = 10, .drawn = {4, 6}};
    AUTO_FREE struct mix_cursor *cursor = open_cursor(mix, &base);
    struct mix_draw draws[8];
    mix_draws(cursor, 7, 5, draws);
    for (uint32_t i = 0; i < 3; i++)
        assert_no_source(draws[i]);
    assert_true(draws[3].source == 0 && draws[3].number == 4);
    assert_true(draws[4].source == 1 && draws[4].number == 6);
    mix_draws(cursor, 2, 8, draws);
    assert_no_source(draws[7]);
    mix_draws(cursor, UINT64_MAX - 1, 4, draws);
    assert_true(draws[0].source != MIX_NO_SOURCE && draws[1].source != MIX_NO_SOURCE);
    assert_no_source(draws[2]);
    assert_no_source(draws[3]);
    draws[0].source = 77;
    mix_draws(cursor, 12, 0, draws);
    mix_draws(cursor, UINT64_MAX, 0, draws);
    assert_int_equal(draws[0].source, 77);
    struct mix_base found = {.start = 99};
    assert_int_equal(mix_base_at(cursor, 9, &found), -ERANGE);
    assert_int_equal(found.start, 99);
    assert_int_equal(mix_base_at(cursor, 10, &found), 0);
    assert_memory_equal(&found, &base, sizeof base);
}

static void test_other_weights_from_there_on(void **state) {
    (void)state;
    static const uint32_t first[] = {600, 300, 100}, second[] = {1, 1, 8, 90};
    for (uint32_t listed = 0; listed <= 1000; listed += 250)
        for (uint64_t change = 0; change < 2500; change += 83) {
            AUTO_FREE struct mix *before = open_mix(first, 3, listed), *after = open_mix(second, 4, listed);
            AUTO_FREE struct mix_cursor *old = open_cursor(before, NULL);
            AUTO_FREE struct mix_cursor *fresh = open_cursor(after, NULL);
            struct mix_base base;
            assert_int_equal(mix_base_at(old, change, &base), 0);
            AUTO_FREE struct mix_cursor *next = open_cursor(after, &base);
            for (uint64_t at = 0; at < 250; at++) {
                const struct mix_draw found = draw_at(next, change + at), wanted = draw_at(fresh, at);
                assert_int_equal(found.source, wanted.source);
                assert_int_equal(found.number, base.drawn[found.source] + wanted.number);
            }
            struct mix_base again;
            assert_int_equal(mix_base_at(next, change + 100, &again), 0);
            for (uint32_t i = 0; i < 4; i++)
                assert_int_equal(again.drawn[i], base.drawn[i] + second[i]);
        }
}

static void test_a_base_must_be_possible(void **state) {
    (void)state;
    static const uint32_t weights[] = {2, 1};
    AUTO_FREE struct mix *mix = open_mix(weights, 2, MIX_LISTED);
    struct mix_cursor *cursor = NULL;
    struct error error = {0};
    struct mix_base base = {.start = 10, .drawn = {4, 7}};
    assert_int_equal(mix_cursor_open(mix, &base, &cursor, &error), -EINVAL);
    assert_string_equal(error.text,
                        "found more samples drawn from 2 sources than positions before the start of "
                        "the mixture, wanted at most 10");
    base.drawn[0] = 11;
    base.drawn[1] = UINT64_MAX - 10;
    assert_int_equal(mix_cursor_open(mix, &base, &cursor, &error), -EINVAL);
    base =
        (struct mix_base){.start = UINT64_MAX, .drawn = {UINT64_MAX - 5, 3}}; // less: a source has gone since
    AUTO_FREE struct mix_cursor *last = open_cursor(mix, &base);
    assert_int_equal(draw_at(last, UINT64_MAX).number, UINT64_MAX - 5);
    base = (struct mix_base){.start = 1, .drawn = {0, 0, 55}}; // no source of this mixture
    AUTO_FREE struct mix_cursor *fine = open_cursor(mix, &base);
    assert_int_equal(draw_at(fine, 1).number, 0);
    assert_int_equal(mix_base_at(fine, 4, &base), 0);
    assert_true(base.drawn[0] == 2 && base.drawn[1] == 1 && base.drawn[2] == 0);
}

static void test_only_the_ratio_counts(void **state) {
    (void)state;
    static const uint32_t large[] = {600000000, 900000000, 3000000000}, small[] = {2, 3, 10};
    AUTO_FREE struct mix *one = open_mix(large, 3, MIX_LISTED), *other = open_mix(small, 3, MIX_LISTED);
    AUTO_FREE struct mix_cursor *first = open_cursor(one, NULL), *second = open_cursor(other, NULL);
    assert_int_equal(mix_lookback(one), 0);
    struct mix_draw found[45], wanted[45];
    mix_draws(first, 0, 45, found);
    mix_draws(second, 0, 45, wanted);
    assert_memory_equal(found, wanted, sizeof found);
    struct mix_base base;
    assert_int_equal(mix_base_at(first, 30, &base), 0);
    assert_true(base.drawn[0] == 4 && base.drawn[1] == 6 && base.drawn[2] == 20);
}

static void test_wrong_weights(void **state) {
    (void)state;
    uint32_t weights[MIX_MAX_SOURCES + 1] = {500000000, 500000001};
    struct mix *mix = NULL;
    struct error error = {0};
    assert_int_equal(mix_open(MIX_1, weights, 2, &mix, &error), -ERANGE);
    assert_string_equal(error.text, "found weights with a total of 1000000001, wanted at most 1000000000");
    assert_int_equal(mix_open(MIX_1, weights, 3, &mix, &error), -EINVAL);
    assert_string_equal(error.text, "found weight 0 for source 2, wanted at least 1");
    for (uint32_t i = 0; i <= MIX_MAX_SOURCES; i++)
        weights[i] = UINT32_MAX;
    assert_int_equal(mix_open(MIX_1, weights, 0, &mix, &error), -EINVAL);
    assert_string_equal(error.text, "found 0 sources in a mix, wanted 1 to 256");
    assert_int_equal(mix_open(MIX_1, weights, MIX_MAX_SOURCES + 1, &mix, &error), -EINVAL);
    assert_null(mix);
    assert_int_equal(mix_open(MIX_1, weights, MIX_MAX_SOURCES, &mix, &error), 0); // all the same: 1 each
    mix_close(mix);
}

static void test_places_in_epochs(void **state) {
    (void)state;
    struct mix_place place = mix_place(UINT64_MAX, 10);
    assert_true(place.epoch == UINT64_MAX / 10 && place.position == 5);
    place = mix_place(999, 1000);
    assert_true(place.epoch == 0 && place.position == 999);
    place = mix_place(1000, 1000);
    assert_true(place.epoch == 1 && place.position == 0);
    place = mix_place(UINT64_MAX, 1);
    assert_true(place.epoch == UINT64_MAX && place.position == 0);
    place = mix_place(UINT64_MAX, UINT64_MAX);
    assert_true(place.epoch == 1 && place.position == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside_is_no_source),    cmocka_unit_test(test_other_weights_from_there_on),
        cmocka_unit_test(test_a_base_must_be_possible), cmocka_unit_test(test_only_the_ratio_counts),
        cmocka_unit_test(test_wrong_weights),           cmocka_unit_test(test_places_in_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
