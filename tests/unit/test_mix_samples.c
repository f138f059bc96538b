// The samples of a mixture: each source gives them as it would by itself, epoch after epoch, wherever one looks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "order/mix_samples.h"
#include "order/replace.h"
#include "tests/unit/mix_fixture.h"

#define MOST 4096u
#define SEED 77u

// Three sources: a dataset, a split of one, and a list with numbers that come twice.
struct world {
    struct selector selectors[3];
    struct sampler samplers[3];
    struct mix_source sources[3];
    struct mix_run run;
};

static const uint64_t list[] = {5, 5, 3, 19, 0};
static const uint32_t weights[] = {30, 11, 7};

static void set_source(struct world *world, uint32_t i, const struct selection *selection,
                       const uint64_t *numbers, uint64_t samples, uint64_t first) {
    struct error error = {0};
    selector_init(&world->selectors[i], selection, numbers);
    assert_int_equal(
        sampler_open(&world->samplers[i], ORDER_SEQUENTIAL, samples, SEED, selection, numbers, 0, &error), 0);
    world->sources[i] = (struct mix_source){&world->samplers[i], first};
}

static void make_world(struct world *world) {
    static const struct selection selections[] = {
        {.kind = SELECTION_ALL},
        {.kind = SELECTION_SPLIT_1, .of = 500, .first = 100, .count = 130, .seed = 4},
        {.kind = SELECTION_LIST, .of = 20, .count = COUNT_OF(list)},
    };
    static const uint64_t samples[] = {97, 130, COUNT_OF(list)}, first[] = {0, 97, 597};
    for (uint32_t i = 0; i < 3; i++)
        set_source(world, i, &selections[i], i == 2 ? list : NULL, samples[i], first[i]);
    mix_run_begin(&world->run, weights, 3);
}

// Only one at a time: the samplers are the world's.
static struct mix_samples *open_samples(struct world *world, enum order_version order) {
    struct mix_samples *samples = NULL;
    struct error error = {0};
    for (uint32_t i = 0; i < 3; i++) {
        bool drawn = world->selectors[i].selection.kind == SELECTION_WEIGHTED_1;
        world->samplers[i].version = drawn ? ORDER_SEQUENTIAL : order;
        memset(world->samplers[i].known, 0, sizeof world->samplers[i].known);
    }
    assert_int_equal(mix_samples_open(&world->run, world->sources, MOST, &samples, &error), 0);
    return samples;
}

// What the source gives as its draw `number`, by the definition.
static uint64_t sample_of(const struct world *world, enum order_version version,
                          const struct mix_draw *draw) {
    struct order order;
    const uint64_t samples = world->samplers[draw->source].samples;
    const struct mix_place place = mix_place(draw->number, samples);
    order_init(&order, version, samples, SEED, place.epoch);
    uint64_t sample = order_sample(&order, place.position);
    selector_map(&world->selectors[draw->source], SEED, place.epoch, &sample, 1);
    return world->sources[draw->source].first + sample;
}

static void check_from(const struct world *world, struct mix_samples *samples, enum order_version version,
                       uint64_t first, uint32_t count) {
    static uint64_t found[MOST];
    AUTO_FREE struct mix *mix = open_mix(world->run.weights, world->run.sources, MIX_LISTED);
    AUTO_FREE struct mix_cursor *cursor = open_cursor(mix, &world->run.base);
    mix_samples_at(samples, first, count, found);
    for (uint32_t i = 0; i < count; i++) {
        const struct mix_draw draw = draw_at(cursor, first + i);
        assert_int_equal(found[i], sample_of(world, version, &draw));
    }
}

static void test_every_position(void **state) {
    (void)state;
    struct world world;
    make_world(&world);
    for (enum order_version version = ORDER_SEQUENTIAL; version <= ORDER_FEISTEL_1; version++) {
        struct mix_samples *samples = open_samples(&world, version);
        check_from(&world, samples, version, 0, MOST);
        check_from(&world, samples, version, MOST, 17);
        check_from(&world, samples, version, 3, 1);
        check_from(&world, samples, version, 1000003, 999);
        check_from(&world, samples, version, INT64_MAX - 5, 5);
        mix_samples_close(samples);
    }
}

// However a run is cut, each source's epochs are whole.
static void test_sources_keep_their_epochs(void **state) {
    (void)state;
    struct world world;
    make_world(&world);
    struct mix_samples *samples = open_samples(&world, ORDER_FEISTEL_1);
    uint64_t found[MOST], seen[97] = {0}, drawn = 0;
    for (uint64_t at = 0; drawn < 97 * 5; at += 13) {
        mix_samples_at(samples, at, 13, found);
        for (uint32_t i = 0; i < 13; i++)
            if (found[i] < 97 && drawn < 97 * 5) {
                assert_int_equal(seen[found[i]], drawn / 97);
                seen[found[i]]++;
                drawn++;
            }
    }
    mix_samples_close(samples);
}

static void test_outside_of_the_run(void **state) {
    (void)state;
    struct world world;
    make_world(&world);
    world.run.base = (struct mix_base){.start = 10, .drawn = {4, 6}};
    struct mix_samples *samples = open_samples(&world, ORDER_SEQUENTIAL);
    uint64_t found[12];
    mix_samples_at(samples, 8, 12, found);
    assert_true(found[0] == UINT64_MAX && found[1] == UINT64_MAX);
    for (uint32_t i = 2; i < 12; i++)
        assert_true(found[i] < 617);
    check_from(&world, samples, ORDER_SEQUENTIAL, 10, 100);
    mix_samples_at(samples, 0, 0, found);
    mix_samples_close(samples);
}

// By its source alone, with the place that the sample has there.
static void test_replacements(void **state) {
    (void)state;
    struct world world;
    make_world(&world);
    struct mix_samples *samples = open_samples(&world, ORDER_FEISTEL_1);
    AUTO_FREE struct mix *mix = open_mix(world.run.weights, world.run.sources, MIX_LISTED);
    AUTO_FREE struct mix_cursor *cursor = open_cursor(mix, NULL);
    for (uint64_t position = 0; position < 3000; position += 1 + position % 7)
        for (uint32_t attempt = 1; attempt <= REPLACE_ATTEMPTS; attempt++) {
            const struct mix_draw draw = draw_at(cursor, position);
            const uint64_t all = world.samplers[draw.source].samples;
            const struct mix_place place = mix_place(draw.number, all);
            uint64_t right = replace_number(SEED, place.epoch, place.position, attempt, all);
            selector_map(&world.selectors[draw.source], SEED, place.epoch, &right, 1);
            right += world.sources[draw.source].first;
            assert_int_equal(mix_samples_replacement(samples, position, attempt), right);
        }
    check_from(&world, samples, ORDER_FEISTEL_1, 100, 50); // the place of the cursor does not matter
    mix_samples_close(samples);
    world.run.base = (struct mix_base){.start = 10, .drawn = {4, 6}};
    samples = open_samples(&world, ORDER_SEQUENTIAL);
    assert_int_equal(mix_samples_replacement(samples, 9, 1), UINT64_MAX);
    mix_samples_close(samples);
}

static void test_draws_by_weight_are_in_any_order(void **state) {
    (void)state;
    struct world world;
    make_world(&world);
    const struct selection drawn = {.kind = SELECTION_WEIGHTED_1, .of = 4, .count = 50, .seed = 1};
    AUTO_FREE uint64_t *table = malloc(selection_list_bytes(&drawn));
    static const uint64_t sums[] = {1ull << 60, 1ull << 61, 1ull << 62, (1ull << 62) + 5};
    assert_non_null(table);
    memcpy(table, sums, sizeof sums);
    draw_prepare(table, 4);
    set_source(&world, 1, &drawn, table, 50, 97);
    uint64_t one[480], other[480];
    struct mix_samples *samples = open_samples(&world, ORDER_FEISTEL_1);
    mix_samples_at(samples, 0, 480, one);
    mix_samples_close(samples);
    samples = open_samples(&world, ORDER_SEQUENTIAL);
    mix_samples_at(samples, 0, 480, other);
    mix_samples_close(samples);
    uint32_t same = 0, of_others = 0;
    for (uint32_t i = 0; i < 480; i++)
        if (one[i] >= 97 && one[i] < 597)
            same += one[i] == other[i];
        else
            of_others += one[i] != other[i];
    assert_int_equal(same, 110);
    assert_true(of_others > 300);
}

static void test_wrong_runs(void **state) {
    (void)state;
    struct world world;
    struct mix_samples *samples = NULL;
    struct error error = {0};
    make_world(&world);
    world.run.version = 2;
    assert_int_equal(mix_samples_open(&world.run, world.sources, 1, &samples, &error), -EINVAL);
    make_world(&world);
    world.run.base.drawn[1] = 1;
    assert_int_equal(mix_samples_open(&world.run, world.sources, 1, &samples, &error), -EINVAL);
    make_world(&world);
    world.samplers[2].samples = 0;
    assert_int_equal(mix_samples_open(&world.run, world.sources, 1, &samples, &error), -EINVAL);
    assert_string_equal(error.text, "found no samples in source 2 of a mix, wanted some");
    assert_null(samples);
}

// ---- Runs --------------------------------------------------------------------------------------------------

static void test_runs_that_cannot_be(void **state) {
    (void)state;
    struct mix_run run;
    struct error error = {0};
    mix_run_begin(&run, weights, 3);
    assert_int_equal(mix_run_check(&run, &error), 0);
    run.version = 2;
    assert_int_equal(mix_run_check(&run, &error), -EINVAL);
    mix_run_begin(&run, weights, 3);
    run.sources = 2;
    assert_int_equal(mix_run_check(&run, &error), -EINVAL);
    run.sources = 4;
    assert_int_equal(mix_run_check(&run, &error), -EINVAL);
    run.sources = MIX_MAX_SOURCES + 1;
    assert_int_equal(mix_run_check(&run, &error), -EINVAL);
    mix_run_begin(&run, weights, 3);
    run.base = (struct mix_base){.start = 10, .drawn = {4, 7}};
    assert_int_equal(mix_run_check(&run, &error), -EINVAL);
    run.base.drawn[1] = UINT64_MAX - 3;
    assert_int_equal(mix_run_check(&run, &error), -EINVAL);
    run.base.drawn[1] = 6;
    assert_int_equal(mix_run_check(&run, &error), 0);
    run.base.start = 20;
    run.base.drawn[3] = 1;
    assert_int_equal(mix_run_check(&run, &error), -EINVAL);
    mix_run_begin(&run, (const uint32_t[]){30, 12, 6}, 3);
    assert_int_equal(mix_run_check(&run, &error), -EINVAL);
    assert_string_equal(error.text,
                        "found weights with a total of 48 and a common factor of 6, wanted at most "
                        "1000000000 and no common factor");
    mix_run_begin(&run, (const uint32_t[]){UINT32_MAX, 1}, 2);
    assert_int_equal(mix_run_check(&run, &error), -EINVAL);
}

static void test_a_run_with_other_weights(void **state) {
    (void)state;
    static const uint32_t others[] = {1, 1, 1};
    struct mix_run run, same;
    struct error error = {0};
    mix_run_begin(&run, weights, 3);
    same = run;
    assert_int_equal(mix_run_change(&run, 9, weights, 3, &error), 0);
    assert_true(mix_run_same(&run, &same)); // what follows is what would have followed
    assert_int_equal(mix_run_change(&run, 2 * 48, others, 3, &error), 0);
    assert_false(mix_run_same(&run, &same));
    assert_int_equal(run.base.start, 96);
    assert_true(run.base.drawn[0] == 60 && run.base.drawn[1] == 22 && run.base.drawn[2] == 14);
    assert_int_equal(mix_run_check(&run, &error), 0);
    same = run;
    assert_int_equal(mix_run_change(&run, 95, weights, 3, &error), -ERANGE);
    assert_true(mix_run_same(&run, &same));
    assert_int_equal(mix_run_change(&run, 99, weights, 3, &error), 0);
    assert_true(run.base.drawn[0] == 61 && run.base.drawn[1] == 23 && run.base.drawn[2] == 15);
}

static void test_positions_in_a_run(void **state) {
    (void)state;
    uint64_t at;
    assert_true(mix_run_position(1000, 3, 17, &at) && at == 3017);
    assert_true(mix_run_position(1, INT64_MAX, 0, &at) && at == INT64_MAX);
    assert_false(mix_run_position(1, INT64_MAX, 1, &at));
    assert_false(mix_run_position(1ull << 40, 1ull << 40, 0, &at));
    assert_false(mix_run_position(1ull << 40, (1ull << 24) - 1, UINT64_MAX, &at));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_position),
        cmocka_unit_test(test_sources_keep_their_epochs),
        cmocka_unit_test(test_outside_of_the_run),
        cmocka_unit_test(test_replacements),
        cmocka_unit_test(test_draws_by_weight_are_in_any_order),
        cmocka_unit_test(test_wrong_runs),
        cmocka_unit_test(test_runs_that_cannot_be),
        cmocka_unit_test(test_a_run_with_other_weights),
        cmocka_unit_test(test_positions_in_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
