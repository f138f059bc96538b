// Mixes with a ragged field: the places of a batch are those of its samples' sizes, source by source, and no batch
// needs more than was planned for it.
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/dataset/mix_sizes.h"
#include "daemon/dataset/size_table.h"
#include "daemon/supervisor/feeds/batch_places.h"
#include "order/mix_samples.h"
#include "shm/ring_make.h"
#include "tests/unit/ring_fixture.h"

#define SOURCES 3u
#define MOST    50u // samples of a source
#define EPOCH   700u

static const uint32_t samples_of[SOURCES] = {MOST, 7, 1};

static struct world {
    struct dataset mix, sources[SOURCES];
    struct dataset *list[SOURCES];
    struct dataset_layout layouts[SOURCES + 1];
    struct size_summary sizes[SOURCES];
    struct index_extent index[SOURCES][MOST];
    struct feed_shape shape;
} world;

static struct ring_field ragged(void) {
    return (struct ring_field){.name = "ids", .dtype = DTYPE_U8, .dimensions = 1, .ragged = 1};
}

// Samples of a few bytes, and one in eight of up to 9000.
static void make_source(uint32_t i, uint64_t *random) {
    struct dataset_layout *layout = &world.layouts[i];
    *layout = (struct dataset_layout){.samples = samples_of[i]};
    layout->field_count = layout->column_count = 1;
    layout->fields[0] = ragged();
    memset(&world.sizes[i], 0, sizeof world.sizes[i]);
    for (uint32_t sample = 0; sample < samples_of[i]; sample++) {
        uint64_t bytes = fixture_random(random) % (fixture_random(random) % 8 ? 40 : 9000);
        world.index[i][sample].bytes = (uint32_t)bytes;
        size_summary_add(&world.sizes[i], bytes);
    }
    world.sources[i] =
        (struct dataset){.layout = layout, .list_fd = -1, .index = (const uint8_t *)world.index[i]};
    world.sources[i].sizes[0] = &world.sizes[i];
    world.list[i] = &world.sources[i];
}

static void make_mix(uint64_t seed, const uint32_t *weights) {
    struct dataset_layout *layout = &world.layouts[SOURCES];
    uint64_t random = seed;
    for (uint32_t i = 0; i < SOURCES; i++)
        make_source(i, &random);
    layout->samples = EPOCH;
    layout->part_count = SOURCES;
    layout->field_count = 1;
    layout->fields[0] = ragged();
    world.mix = (struct dataset){.layout = layout, .list_fd = -1, .sources = world.list};
    world.shape = (struct feed_shape){.dataset = &world.mix, .shuffle = true, .seed = seed};
    mix_run_begin(&world.shape.mix, weights, SOURCES);
}

static void make_ring(struct ring *ring, uint32_t batch, uint64_t most) {
    struct error error = {0};
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    struct ring_plan plan = {.slot_count = 1,
                             .batch_size = batch,
                             .field_count = 1,
                             .samples = EPOCH,
                             .world_size = 1,
                             .ragged_mean = 40000, // more than one chunk
                             .ragged_usual = most,
                             .ragged_most = most,
                             .fields = {ragged()}};
    if (ring_plan(&plan, &error) < 0 || ring_create(&plan, &fd, &read_fd, &error) < 0 ||
        ring_allocate_control(&plan, fd, &error) < 0 ||
        ring_allocate(&plan, fd, 0, plan.slot_count, &error) < 0 ||
        ring_map(ring, fd, RING_FILL, &error) < 0 || ring_supervise(ring, &error) < 0)
        fail_msg("%s", error.text);
}

// Position by position.
static void find_sizes(uint64_t *bytes) {
    struct sampler samplers[SOURCES];
    struct mix_source about[SOURCES];
    struct mix_samples *samples;
    struct error error = {0};
    for (uint32_t i = 0; i < SOURCES; i++) {
        assert_int_equal(sampler_open(&samplers[i], ORDER_FEISTEL_1, samples_of[i], world.shape.seed,
                                      &world.layouts[i].selection, NULL, 0, &error),
                         0);
        about[i] = (struct mix_source){&samplers[i], i * (uint64_t)MOST};
    }
    assert_int_equal(mix_samples_open(&world.shape.mix, about, 1, &samples, &error), 0);
    for (uint64_t position = 0; position < EPOCH; position++) {
        uint64_t found;
        mix_samples_at(samples, position, 1, &found);
        bytes[position] = world.index[found / MOST][found % MOST].bytes;
    }
    mix_samples_close(samples);
}

// Of the second one, the supervisor uses the index.
static void make_tables(void) {
    for (uint32_t i = 0; i < SOURCES; i += 2)
        world.sources[i].size_tables[0] =
            size_table_make(world.layouts[i].columns, world.sources[i].index, samples_of[i]);
}

static void free_tables(void) {
    for (uint32_t i = 0; i < SOURCES; i++)
        free(world.sources[i].size_tables[0]);
}

static void check_batches(uint32_t batch) {
    uint64_t sizes[EPOCH], most = mix_sizes_most(&world.mix, world.shape.mix.weights, 0, batch);
    struct batch_places *places;
    struct error error = {0};
    struct ring ring;
    find_sizes(sizes);
    make_tables();
    make_ring(&ring, batch, most);
    assert_int_equal(batch_places_open(&world.shape, &ring, &places, &error), 0);
    for (uint64_t first = 0; first + batch <= EPOCH; first += 1 + batch / 3) {
        const struct batch_place place = {.first_position = first, .count = batch};
        uint64_t bytes = batch_places_compute(places, &ring, 0, &place), at = ring.header->values_offset;
        const uint64_t *own = ring_own_places(&ring, 0);
        for (uint32_t i = 0; i < batch; i++) {
            if (i % ring.header->chunk_samples == 0)
                assert_int_equal(own[i / ring.header->chunk_samples], at);
            at += sizes[first + i];
        }
        assert_int_equal(bytes, at);
        assert_true(at - ring.header->values_offset <= most);
    }
    batch_places_close(places);
    ring_unmap(&ring);
    free_tables();
}

static void batches_have_the_sizes_of_their_samples(void **state) {
    static const uint32_t weights[][SOURCES] = {{1, 1, 1}, {5, 2, 1}, {1, 90, 3}, {1, 1, 60}};
    static const uint32_t batches[] = {1, 2, 9, 40, 300};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(weights); i++)
        for (size_t k = 0; k < COUNT_OF(batches); k++) {
            make_mix(10 * i + k, weights[i]);
            check_batches(batches[k]);
        }
}

// What may be planned for a batch is not what it would be if all its samples were of the source with the largest ones.
static void the_most_follows_the_weights(void **state) {
    static const uint32_t weights[SOURCES] = {98, 1, 1};
    (void)state;
    make_mix(1, weights);
    memset(world.sizes, 0, sizeof world.sizes);
    for (uint32_t i = 0; i < MOST; i++)
        size_summary_add(&world.sizes[0], 10);
    for (uint32_t i = 0; i < samples_of[1]; i++)
        size_summary_add(&world.sizes[1], 1000);
    size_summary_add(&world.sizes[2], 2000);
    // Of each light source there may be one in one position, and two in a hundred; the 96 that are left have 10 bytes.
    assert_int_equal(mix_sizes_most(&world.mix, weights, 0, 1), 2000);
    assert_int_equal(mix_sizes_most(&world.mix, weights, 0, 100), 2 * 2000 + 2 * 1000 + 96 * 10);
    // Two epochs of a source of 7 samples, not more.
    static const uint32_t others[SOURCES] = {1, 98, 1};
    world.sizes[1] = (struct size_summary){0};
    size_summary_add(&world.sizes[1], 1000);
    for (uint32_t i = 1; i < samples_of[1]; i++)
        size_summary_add(&world.sizes[1], 10);
    assert_int_equal(mix_sizes_most(&world.mix, others, 0, 7), 2 * 2000 + 2 * 1000 + 3 * 10);
    // A draw may take the same sample each time.
    world.layouts[1].selection.kind = SELECTION_WEIGHTED_1;
    assert_int_equal(mix_sizes_most(&world.mix, others, 0, 7), 2 * 2000 + 5 * 1000);
}

static void the_average_follows_the_weights(void **state) {
    static const uint32_t weights[SOURCES] = {3, 1, 4};
    struct size_summary average;
    (void)state;
    make_mix(2, weights);
    memset(world.sizes, 0, sizeof world.sizes);
    for (uint32_t i = 0; i < MOST; i++)
        size_summary_add(&world.sizes[0], 8);
    for (uint32_t i = 0; i < samples_of[1]; i++)
        size_summary_add(&world.sizes[1], 0);
    size_summary_add(&world.sizes[2], 80);
    mix_sizes_average(&world.mix, weights, 0, &average);
    assert_int_equal(average.samples, 8);
    assert_int_equal(average.largest, 80);
    assert_int_equal(size_summary_mean(&average), 43); // 3 * 8 + 4 * 80, of 8
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_have_the_sizes_of_their_samples),
        cmocka_unit_test(the_most_follows_the_weights),
        cmocka_unit_test(the_average_follows_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
