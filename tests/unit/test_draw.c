// Draws by weight: golden vectors, and for all small tables every number at which the draw may change.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "order/draw.h"
#include "order/philox.h"
#include "order/selection.h"
#include "order/shares.h"
#include "tests/unit/draw_vectors.h"

static uint64_t *allocate(uint64_t count) {
    uint64_t *memory = calloc(1, draw_bytes(count));
    assert_non_null(memory);
    return memory;
}

// The table of a golden vector; what is returned is to be freed.
static uint64_t *prepare(uint32_t number, struct draw_table *table) {
    const uint32_t count = table_vectors[number].count;
    uint64_t *memory = allocate(count);
    memcpy(memory, table_vectors[number].words, count * sizeof *memory);
    assert_int_equal(shares_sum(table_vectors[number].dtype, memory, count), 0);
    draw_prepare(memory, count);
    draw_init(table, memory, count);
    return memory;
}

static void test_golden_sums(void **state) {
    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(table_vectors); i++) {
        struct draw_table table;
        AUTO_FREE uint64_t *memory = prepare(i, &table);
        assert_memory_equal(memory, table_vectors[i].sums, table_vectors[i].count * sizeof *memory);
    }
}

static void test_golden_draws(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(draw_vectors); i++) {
        struct draw_table table;
        AUTO_FREE uint64_t *memory = prepare(draw_vectors[i].table, &table);
        uint64_t samples[DRAW_POSITIONS];
        memcpy(samples, draw_positions, sizeof samples);
        draw_samples(&table, draw_vectors[i].seed, draw_vectors[i].epoch, DRAW_POSITIONS, samples);
        assert_memory_equal(samples, draw_vectors[i].samples, sizeof samples);
    }
}

static void test_golden_digests(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(draw_digests); i++) {
        struct draw_table table;
        AUTO_FREE uint64_t *memory = prepare(draw_digests[i].table, &table);
        AUTO_FREE uint64_t *samples = calloc(draw_digests[i].positions, sizeof *samples);
        uint64_t digest = 0;
        assert_non_null(samples);
        for (uint64_t p = 0; p < draw_digests[i].positions; p++)
            samples[p] = p;
        draw_samples(&table, draw_digests[i].seed, draw_digests[i].epoch, (uint32_t)draw_digests[i].positions,
                     samples);
        for (uint64_t p = 0; p < draw_digests[i].positions; p++)
            digest = digest * 0x5851f42d4c957f2du + samples[p] + 1;
        assert_int_equal(digest, draw_digests[i].digest);
    }
}

// By the definition, without the table.
static uint64_t defined(const uint64_t *sums, uint64_t count, uint64_t u) {
    const uint64_t share = (uint64_t)((unsigned __int128)u * sums[count - 1] >> 64);
    uint64_t sample = 0;
    while (sums[sample] <= share)
        sample++;
    return sample;
}

static void check_around(const struct draw_table *table, uint64_t u) {
    for (uint64_t near = u - 2; near != u + 3; near++) // beyond 0 they are the last ones
        assert_int_equal(draw_by(table, near), defined(table->sums, table->count, near));
}

// The draw changes where a share begins, and how it is searched where a part does.
static void check_table(const uint64_t *sums, uint64_t count) {
    struct draw_table table;
    AUTO_FREE uint64_t *memory = allocate(count);
    const uint64_t sum = sums[count - 1];
    memcpy(memory, sums, count * sizeof *memory);
    draw_prepare(memory, count);
    draw_init(&table, memory, count);
    for (uint64_t share = 0; share < sum; share++)
        check_around(&table, (uint64_t)((((unsigned __int128)share << 64) + sum - 1) / sum));
    for (uint64_t part = 0; part < 64; part++)
        check_around(&table, part << 58);
}

// All tables of up to 6 samples with shares of 0 to 3.
static void test_every_small_table(void **state) {
    (void)state;
    for (uint32_t count = 1; count <= 6; count++)
        for (uint32_t code = 1; code < 1u << (2 * count); code++) {
            uint64_t sums[6], sum = 0;
            for (uint32_t i = 0; i < count; i++)
                sums[i] = sum += code >> (2 * i) & 3;
            check_table(sums, count);
        }
}

// Sums as large as they become, and more samples than a part has.
static void test_large_tables(void **state) {
    (void)state;
    enum {
        COUNT = 1000
    };
    struct draw_table table;
    AUTO_FREE uint64_t *memory = allocate(COUNT);
    const uint64_t most = (UINT64_C(1) << 63) + SHARES_MOST;
    for (uint64_t i = 0; i < COUNT; i++) // nearly all of it belongs to one
        memory[i] = i < 400 ? i / 3 : most - (COUNT - i) / 2;
    draw_prepare(memory, COUNT);
    draw_init(&table, memory, COUNT);
    for (uint64_t part = 0; part < 1024; part++)
        check_around(&table, part << 54);
    for (uint64_t i = 0; i < COUNT; i++) // twice as much of u as of shares, nearly
        check_around(&table, (uint64_t)(((unsigned __int128)memory[i] << 64) / memory[COUNT - 1]));
}

// Whatever the order and the number of positions that are asked for at once; those that are none stay.
static void test_positions_are_independent(void **state) {
    (void)state;
    enum {
        COUNT = 200
    };
    struct draw_table table;
    AUTO_FREE uint64_t *memory = prepare(COUNT_OF(table_vectors) - 1, &table);
    uint64_t whole[COUNT], some[COUNT];
    for (uint64_t p = 0; p < COUNT; p++)
        whole[p] = p;
    draw_samples(&table, 5, 6, COUNT, whole);
    for (uint32_t count = 0; count <= 130; count += 13) {
        for (uint64_t i = 0; i < count; i++)
            some[i] = i % 5 == 3 ? UINT64_MAX : COUNT - 1 - i;
        draw_samples(&table, 5, 6, count, some);
        for (uint64_t i = 0; i < count; i++)
            assert_int_equal(some[i], i % 5 == 3 ? UINT64_MAX : whole[COUNT - 1 - i]);
    }
}

static void test_a_view_draws(void **state) {
    (void)state;
    struct draw_table table;
    AUTO_FREE uint64_t *memory = prepare(1, &table);
    const struct selection selection = {
        .kind = SELECTION_WEIGHTED_1, .of = table_vectors[1].count, .count = 70, .seed = 0xfeed};
    struct selector selector;
    uint64_t samples[] = {69, 3, 70, UINT64_MAX, 0}, wanted[] = {69, 3, UINT64_MAX, UINT64_MAX, 0};
    assert_int_equal(selection_list_bytes(&selection), draw_bytes(table_vectors[1].count));
    selector_init(&selector, &selection, memory);
    selector_map(&selector, 8, 9, samples, COUNT_OF(samples));
    draw_samples(&table, 8, 9, COUNT_OF(wanted), wanted);
    assert_memory_equal(samples, wanted, sizeof samples);
}

// All digits of the random number count: a sample that has but one share among 2^63 is drawn where it is hit.
static void test_every_digit_counts(void **state) {
    (void)state;
    const struct philox_key key = random_key(RANDOM_DRAW_1, 21);
    for (uint64_t position = 0; position < 100; position++) {
        const struct philox_block block = random_at(key, 3, position);
        const uint64_t share = (block.word[0] | (uint64_t)block.word[1] << 32) / 2;
        struct draw_table table;
        AUTO_FREE uint64_t *memory = allocate(3);
        uint64_t sample = position;
        memcpy(memory, ((uint64_t[]){share, share + 1, UINT64_C(1) << 63}), 3 * sizeof *memory);
        draw_prepare(memory, 3);
        draw_init(&table, memory, 3);
        draw_samples(&table, 21, 3, 1, &sample);
        assert_int_equal(sample, 1);
    }
}

static void test_memory(void **state) {
    (void)state;
    assert_int_equal(draw_bytes(1), 8 + 4 * 3); // two parts, and where the last one ends
    assert_int_equal(draw_bytes(3), 8 * 3 + 4 * 3);
    assert_int_equal(draw_bytes(4), 8 * 4 + 4 * 5);
    assert_int_equal(draw_bytes(1000), 8 * 1000 + 4 * 513);
    for (uint64_t count = 1; count <= SHARES_MOST; count += 1 + count / 3)
        assert_true(draw_bytes(count) >= 8 * count && draw_bytes(count) <= 12 * count + 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_sums),        cmocka_unit_test(test_golden_draws),
        cmocka_unit_test(test_golden_digests),     cmocka_unit_test(test_every_small_table),
        cmocka_unit_test(test_large_tables),       cmocka_unit_test(test_positions_are_independent),
        cmocka_unit_test(test_a_view_draws),       cmocka_unit_test(test_memory),
        cmocka_unit_test(test_every_digit_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
