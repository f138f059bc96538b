// Mixtures as a contract: golden vectors; that every prefix is within one sample of every weight; and that any
// position is found directly.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "tests/unit/mix_fixture.h"
#include "tests/unit/mix_vectors.h"

static uint64_t random_word(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static uint64_t total_of(const uint32_t *weights, uint32_t sources) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < sources; i++)
        total += weights[i];
    return total;
}

// ---- the bound

// Whether every source is within one sample of its weight: |count - n w / W| < 1.
static bool within(const uint32_t *weights, uint32_t sources, uint64_t total, uint64_t position,
                   const uint64_t *counts) {
    for (uint32_t i = 0; i < sources; i++) {
        const __int128 apart = (__int128)counts[i] * (__int128)total - (__int128)position * weights[i];
        if (apart <= -(__int128)total || apart >= (__int128)total)
            return false;
    }
    return true;
}

// Walks through `draws`, which stand from `position` on, after `counts` of each source; false where the bound is
// broken or a number is not that of the source's next sample.
static bool hold(const uint32_t *weights, uint32_t sources, uint64_t position, uint64_t *counts,
                 const struct mix_draw *draws, uint32_t count) {
    const uint64_t total = total_of(weights, sources);
    for (uint32_t at = 0; at < count; at++) {
        if (draws[at].source >= sources || draws[at].number != counts[draws[at].source]++)
            return false;
        if (!within(weights, sources, total, position + at + 1, counts))
            return false;
    }
    return true;
}

static void test_a_broken_bound_is_found(void **state) {
    (void)state;
    static const uint32_t weights[] = {5, 1, 1, 1, 1, 1};
    AUTO_FREE struct mix *mix = open_mix(weights, 6, MIX_LISTED);
    AUTO_FREE struct mix_cursor *cursor = open_cursor(mix, NULL);
    struct mix_draw draws[20];
    uint64_t counts[6] = {0};
    mix_draws(cursor, 0, 20, draws);
    assert_true(hold(weights, 6, 0, counts, draws, 20));
    // Whoever has the most weight per sample that it would have then (d'Hondt) serves the heavy one too early.
    struct mix_draw greedy[10];
    uint64_t given[6] = {0}, seen[6] = {0};
    for (uint32_t at = 0; at < 10; at++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < 6; i++)
            if (weights[i] * (given[best] + 1) > weights[best] * (given[i] + 1))
                best = i;
        greedy[at] = (struct mix_draw){.number = given[best]++, .source = best};
    }
    assert_int_equal(given[0], 5);
    assert_false(hold(weights, 6, 0, seen, greedy, 10));
    // A wrong number is found as well.
    draws[7].number++;
    memset(counts, 0, sizeof counts);
    assert_false(hold(weights, 6, 0, counts, draws, 20));
}

// ---- golden vectors

static uint64_t digest_period(struct mix_cursor *cursor, uint64_t total) {
    uint64_t digest = 0;
    for (uint64_t position = 0; position < total; position++) {
        const struct mix_draw found = draw_at(cursor, position);
        digest = digest * 0x5851f42d4c957f2du + ((uint64_t)found.source << 32) + found.number + 1;
    }
    return digest;
}

static void test_golden(void **state) {
    (void)state;
    for (uint32_t at = 0; at < COUNT_OF(mix_vectors); at++) {
        const uint32_t *weights = mix_vectors[at].weights, sources = mix_vectors[at].sources;
        uint32_t factor = weights[0];
        for (uint32_t i = 1; i < sources; i++)
            for (uint32_t rest = weights[i]; rest;) {
                const uint32_t left = factor % rest;
                factor = rest;
                rest = left;
            }
        AUTO_FREE struct mix *mix = open_mix(weights, sources, mix_vectors[at].listed);
        AUTO_FREE struct mix_cursor *cursor = open_cursor(mix, NULL);
        if (mix_vectors[at].digest)
            assert_int_equal(digest_period(cursor, total_of(weights, sources) / factor),
                             mix_vectors[at].digest);
        for (size_t i = 0; i < COUNT_OF(draw_vectors); i++)
            if (draw_vectors[i].mix == at) {
                const struct mix_draw found = draw_at(cursor, draw_vectors[i].position);
                assert_int_equal(found.source, draw_vectors[i].source);
                assert_int_equal(found.number, draw_vectors[i].number);
            }
    }
}

static void test_version_1(void **state) {
    (void)state;
    assert_int_equal(MIX_LISTED, 262144); // part of MIX_1, as the vectors have it
    static const uint32_t weights[] = {131072, 131073};
    struct mix *mix = NULL;
    struct error error = {0};
    assert_int_equal(mix_open(MIX_1, weights, 2, &mix, &error), 0);
    assert_int_equal(mix_lookback(mix), 2); // the heavy one of two
    mix_close(mix);
    assert_int_equal(mix_open((enum mix_version)2, weights, 2, &mix, &error), -EINVAL);
    assert_string_equal(error.text, "found version 2 of mixes, wanted 1");
    assert_int_equal(mix_open((enum mix_version)0, weights, 2, &mix, &error), -EINVAL);
    mix_close(NULL);
    mix_cursor_close(NULL);
}

// ---- all small mixtures

enum {
    SMALL_TOTAL = 12,
    SMALL_SOURCES = 5,
    SMALL_WALK = 3 * SMALL_TOTAL + 1,
};

static void check_small(const uint32_t *weights, uint32_t sources, uint32_t listed) {
    const uint64_t total = total_of(weights, sources);
    AUTO_FREE struct mix *mix = open_mix(weights, sources, listed);
    AUTO_FREE struct mix_cursor *cursor = open_cursor(mix, NULL);
    AUTO_FREE struct mix_cursor *other = open_cursor(mix, NULL);
    struct mix_draw draws[SMALL_WALK];
    uint64_t counts[SMALL_SOURCES] = {0};
    struct mix_base base;
    mix_draws(cursor, 0, SMALL_WALK, draws);
    for (uint32_t at = 0; at < SMALL_WALK; at++) {
        assert_int_equal(mix_base_at(other, at * 17u % SMALL_WALK, &base), 0); // from somewhere else
        assert_int_equal(mix_base_at(other, at, &base), 0);
        assert_int_equal(base.start, at);
        assert_memory_equal(base.drawn, counts, sources * sizeof *counts);
        for (uint32_t i = 0; at % total == 0 && i < sources; i++)
            assert_int_equal(counts[i], at / total * weights[i]);
        assert_true(hold(weights, sources, at, counts, draws + at, 1));
    }
    for (uint32_t at = 0; at <= total; at++) {
        AUTO_FREE struct mix_cursor *fresh = open_cursor(mix, NULL);
        const struct mix_draw found = draw_at(fresh, at);
        assert_memory_equal(&found, &draws[at], sizeof found);
    }
    for (uint32_t from = SMALL_WALK; from-- > 0;) { // backwards, and back from every distance
        const struct mix_draw found = draw_at(cursor, from), far = draw_at(other, from * 5u % SMALL_WALK);
        assert_memory_equal(&found, &draws[from], sizeof found);
        assert_memory_equal(&far, &draws[from * 5u % SMALL_WALK], sizeof far);
    }
}

static uint32_t check_all(uint32_t *weights, uint32_t sources, uint32_t left) {
    uint32_t checked = 0;
    if (sources) {
        const uint32_t total = SMALL_TOTAL - left;
        for (uint32_t listed = 0; listed <= total; listed++)
            check_small(weights, sources, listed);
        checked = total + 1;
    }
    for (uint32_t weight = 1; sources < SMALL_SOURCES && weight <= left; weight++) {
        weights[sources] = weight;
        checked += check_all(weights, sources + 1, left - weight);
    }
    return checked;
}

static void test_all_small_mixtures(void **state) {
    (void)state;
    uint32_t weights[SMALL_SOURCES];
    assert_int_equal(check_all(weights, 0, SMALL_TOTAL), 18108);
}

// ---- large mixtures

enum {
    STRETCH = 3000,
};

// From `position` on, in one piece and one by one, with a cursor that comes from elsewhere.
static void check_stretch(const struct mix *mix, const uint32_t *weights, uint32_t sources, uint64_t position,
                          uint64_t *random) {
    AUTO_FREE struct mix_cursor *cursor = open_cursor(mix, NULL);
    AUTO_FREE struct mix_cursor *other = open_cursor(mix, NULL);
    AUTO_FREE struct mix_draw *draws = calloc(STRETCH, sizeof *draws);
    struct mix_base base, end;
    assert_int_equal(mix_base_at(other, position, &base), 0);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sources; i++)
        sum += base.drawn[i];
    assert_int_equal(sum, position);
    assert_true(within(weights, sources, total_of(weights, sources), position, base.drawn));
    for (uint32_t at = 0, count; at < STRETCH; at += count) {
        count = (uint32_t)min_u64(STRETCH - at, random_word(random) % 700);
        mix_draws(cursor, position + at, count, draws + at);
    }
    assert_true(hold(weights, sources, position, base.drawn, draws, STRETCH));
    assert_int_equal(mix_base_at(other, position + STRETCH, &end), 0);
    assert_memory_equal(end.drawn, base.drawn, sizeof base.drawn);
    for (uint32_t i = 0; i < 20; i++) {
        const uint64_t at = random_word(random) % STRETCH;
        const struct mix_draw found = draw_at(other, position + at);
        assert_memory_equal(&found, &draws[at], sizeof found);
    }
}

static void check_large(uint32_t sources, uint32_t heaviest, uint32_t listed, uint64_t *random) {
    uint32_t weights[MIX_MAX_SOURCES];
    for (uint32_t i = 0; i < sources; i++)
        weights[i] = 1 + (uint32_t)(random_word(random) % (heaviest >> random_word(random) % 12));
    weights[sources - 1] = 1; // so that they have no common factor
    const uint64_t total = total_of(weights, sources);
    AUTO_FREE struct mix *mix = open_mix(weights, sources, listed);
    check_stretch(mix, weights, sources, 0, random);
    // On into the next period.
    check_stretch(mix, weights, sources, (STRETCH / total + 1) * total - STRETCH / 2, random);
    check_stretch(mix, weights, sources, UINT64_MAX - STRETCH, random);
    for (uint32_t i = 0; i < 4; i++)
        check_stretch(mix, weights, sources, random_word(random) % (UINT64_MAX - STRETCH), random);
    AUTO_FREE struct mix_cursor *cursor = open_cursor(mix, NULL);
    struct mix_base base;
    assert_int_equal(mix_base_at(cursor, total, &base), 0);
    for (uint32_t i = 0; i < sources; i++)
        assert_int_equal(base.drawn[i], weights[i]);
    assert_true(listed != MIX_LISTED || mix_lookback(mix) < sources * total / MIX_LISTED + 1);
    assert_int_equal(mix_lookback(mix) > 0, total > listed);
}

static void test_large_mixtures(void **state) {
    (void)state;
    uint64_t random = 42;
    for (uint32_t sources = 2; sources <= 256; sources += 1 + sources / 6)
        for (uint32_t listed = 100; listed <= 100000; listed *= 10)
            check_large(sources, 3000 + 200 * sources, listed, &random);
    for (uint32_t i = 0; i < 4; i++) {
        check_large(100, 999999, MIX_LISTED, &random);
        check_large(256, 3900000, MIX_LISTED, &random);
        check_large(7, 140000000, MIX_LISTED, &random);
    }
}

// A whole period whose bound is checked at every position, with heavy and light sources.
static void test_long_walk(void **state) {
    (void)state;
    static const uint32_t weights[] = {400001, 99991, 70001, 69999, 60000, 1000, 999, 100, 7, 3, 1, 1};
    const uint32_t sources = COUNT_OF(weights);
    const uint64_t total = total_of(weights, sources);
    AUTO_FREE struct mix *mix = open_mix(weights, sources, MIX_LISTED);
    AUTO_FREE struct mix_cursor *cursor = open_cursor(mix, NULL);
    struct mix_draw draws[STRETCH];
    uint64_t counts[COUNT_OF(weights)] = {0};
    for (uint64_t at = 0; at < total + STRETCH; at += STRETCH) {
        mix_draws(cursor, at, STRETCH, draws);
        assert_true(hold(weights, sources, at, counts, draws, STRETCH));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_broken_bound_is_found),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_version_1),
        cmocka_unit_test(test_all_small_mixtures),
        cmocka_unit_test(test_large_mixtures),
        cmocka_unit_test(test_long_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
