// The rule of holes against the same rule said in another way, for every small batch and for edges of the bitmap's
// words.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "shm/holes.h"

#define SMALL 10u
#define LARGE 200u

static bool bit(const _Atomic uint64_t *skips, uint32_t place) {
    return atomic_load(&skips[place / 64]) >> (place % 64) & 1;
}

// Walk over the batch: a hole takes the first readable sample after the end that has not been taken yet.
static void check_rule(const _Atomic uint64_t *skips, uint32_t dispatched) {
    uint32_t good = 0;
    for (uint32_t place = 0; place < dispatched; place++)
        good += !bit(skips, place);
    struct holes holes = holes_of(skips, good, dispatched);
    uint32_t next = good;
    for (uint32_t place = 0; place < good; place++) {
        uint32_t source = place;
        if (bit(skips, place)) {
            while (bit(skips, next))
                next++;
            source = next++;
            assert_true(holes_next(&holes));
            assert_int_equal(holes.hole, place);
            assert_int_equal(holes.source, source);
        }
        assert_int_equal(hole_source(skips, good, dispatched, place), source);
    }
    assert_false(holes_next(&holes));
    assert_false(holes_next(&holes));
    assert_int_equal(hole_source(skips, good, dispatched, good), UINT32_MAX);
    assert_int_equal(hole_source(skips, good, dispatched, UINT32_MAX), UINT32_MAX);
}

// With ragged fields, what is readable keeps its order.
static void check_order(const _Atomic uint64_t *skips, uint32_t dispatched) {
    uint32_t good = 0, place = 0;
    for (uint32_t source = 0; source < dispatched; source++)
        good += !bit(skips, source);
    for (uint32_t source = 0; source < dispatched; source++)
        if (!bit(skips, source))
            assert_int_equal(hole_source_in_order(skips, good, dispatched, place++), source);
    assert_int_equal(hole_source_in_order(skips, good, dispatched, good), UINT32_MAX);
    assert_int_equal(hole_source_in_order(skips, good, dispatched, UINT32_MAX), UINT32_MAX);
}

static void test_every_small_batch(void **state) {
    (void)state;
    for (uint32_t dispatched = 0; dispatched <= SMALL; dispatched++)
        for (uint64_t pattern = 0; pattern < 1u << dispatched; pattern++) {
            // Bits that belong to no sample do not matter.
            _Atomic uint64_t skips[1] = {pattern | UINT64_MAX << dispatched};
            check_rule(skips, dispatched);
            check_order(skips, dispatched);
        }
}

static void test_holes_at_the_edges_of_words(void **state) {
    (void)state;
    static const uint32_t edges[] = {0, 1, 62, 63, 64, 65, 127, 128, 191, 192, 198, 199};
    for (uint32_t chosen = 0; chosen < 1u << COUNT_OF(edges); chosen++) {
        _Atomic uint64_t skips[4] = {0};
        for (uint32_t i = 0; i < COUNT_OF(edges); i++)
            if (chosen >> i & 1)
                atomic_fetch_or(&skips[edges[i] / 64], 1ull << (edges[i] % 64));
        check_rule(skips, LARGE);
        check_order(skips, LARGE);
    }
}

static void test_words_without_a_sample(void **state) {
    (void)state;
    _Atomic uint64_t all[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    check_rule(all, LARGE);
    atomic_store(&all[3], ~(1ull << 5));
    check_rule(all, LARGE); // the only readable sample is among the last
    check_rule(all, 256);
    check_order(all, LARGE);
    check_order(all, 256);
}

// What a loader that has run wild could leave for a client.
static void test_counts_that_disagree_with_the_bitmap(void **state) {
    (void)state;
    _Atomic uint64_t skips[1] = {0x7}; // three of six are missing
    assert_int_equal(hole_source(skips, 4, 6, 0), 4);
    assert_int_equal(hole_source(skips, 4, 6, 1), 5);
    assert_int_equal(hole_source(skips, 4, 6, 2), UINT32_MAX);
    assert_int_equal(hole_source(skips, 6, 6, 0), UINT32_MAX);
    assert_int_equal(hole_source(skips, 6, 6, 3), 3);
    assert_int_equal(hole_source(skips, 7, 6, 3), UINT32_MAX);
    assert_int_equal(hole_source_in_order(skips, 4, 6, 2), 5);
    assert_int_equal(hole_source_in_order(skips, 4, 6, 3), UINT32_MAX);
    assert_int_equal(hole_source_in_order(skips, 7, 6, 0), UINT32_MAX);
    struct holes holes = holes_of(skips, 4, 6);
    assert_true(holes_next(&holes));
    assert_true(holes_next(&holes));
    assert_false(holes_next(&holes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_batch),
        cmocka_unit_test(test_holes_at_the_edges_of_words),
        cmocka_unit_test(test_words_without_a_sample),
        cmocka_unit_test(test_counts_that_disagree_with_the_bitmap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
