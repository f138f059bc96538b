// Chunks whose stored samples differ in size while delivered ones do not: each is read to a place of its own in memory
// of the plan, which grows, and a slow stage gets them one by one.
#include "base/dtype.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/loader/chunk_stage.h"
#include "daemon/loader/chunk_varying.h"
#include "shm/ring_make.h"
#include "tests/unit/ring_fixture.h"

#define SAMPLES   64u
#define BATCH     16u
#define MOST      60000u // bytes of a sample
#define SEED      77u
#define EPOCH     3u
#define DELIVERED 16u

// Delivers the number of bytes and their sum.
struct summing_stage {
    struct stage stage;
    uint32_t runs;
};

static struct world {
    struct dataset_layout *layout;
    struct index_extent index[SAMPLES];
    uint8_t *file;
    struct ring ring;
    struct summing_stage stage;
    struct stage_set stages;
    struct chunk_plan plan;
} world;

static int bytes_needed(const struct stage *stage, uint64_t stored_bytes, uint64_t *bytes) {
    (void)stage;
    *bytes = max_u64(stored_bytes, 1);
    return 0;
}

static uint64_t sum(const uint8_t *bytes, uint64_t count) {
    uint64_t total = 0;
    for (uint64_t i = 0; i < count; i++)
        total = total * 31 + bytes[i];
    return total;
}

static void run_stage(struct stage *stage, const struct stage_run *run) {
    struct summing_stage *self = (struct summing_stage *)stage;
    const uint64_t result[2] = {run->stored_bytes, sum(run->stored, run->stored_bytes)};
    assert_int_equal(run->count, 1);
    assert_int_equal(run->seed, SEED);
    assert_int_equal(run->epoch, EPOCH);
    assert_int_equal(run->delivered_bytes, sizeof result);
    if (run->stored_bytes == 0)
        stage_refuse(run, 0, -EBADMSG, "it is empty");
    memcpy(run->delivered, result, sizeof result);
    self->runs++;
}

static void close_stage(struct stage *stage) {
    (void)stage;
}

static const struct stage_ops slow_ops = {
    .name = "sum", .slow = true, .bytes_needed = bytes_needed, .run = run_stage, .close = close_stage};
static const struct stage_ops quick_ops = {
    .name = "sum", .bytes_needed = bytes_needed, .run = run_stage, .close = close_stage};

static void make_dataset(void) {
    struct dataset_layout *layout = world.layout = calloc(1, sizeof *layout + sizeof layout->files[0]);
    uint64_t random = 5, at = 0;
    world.file = malloc(SAMPLES * MOST);
    if (!layout || !world.file)
        abort(); // the analyzer does not know that an assertion ends the test
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t bytes = i % 9 == 8 ? 0 : 1 + fixture_random(&random) % (i % 2 ? MOST : 200);
        world.index[i] = (struct index_extent){.offset = at, .bytes = (uint32_t)bytes};
        for (uint64_t k = 0; k < bytes; k++)
            world.file[at + k] = (uint8_t)fixture_random(&random);
        at += bytes;
    }
    layout->samples = SAMPLES;
    layout->field_count = layout->stream_count = layout->file_count = layout->column_count = 1;
    layout->index_bytes = sizeof world.index;
    layout->fields[0] = (struct ring_field){
        .name = "image", .dtype = DTYPE_U64, .dimensions = 1, .shape = {2}, .sample_bytes = DELIVERED};
    layout->streams[0].file_count = 1;
    layout->columns[0] =
        (struct dataset_column){.kind = COLUMN_EXTENTS, .bytes = MOST, .mean = MOST / 4, .varies = 1};
    layout->files[0] = (struct dataset_file){.samples = SAMPLES, .bytes = at};
}

static void make_ring(void) {
    struct error error = {0};
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    struct ring_plan plan = {.slot_count = 2,
                             .batch_size = BATCH,
                             .field_count = 1,
                             .samples = SAMPLES,
                             .seed = SEED,
                             .world_size = 1,
                             .fields = {world.layout->fields[0]}};
    if (ring_plan(&plan, &error) < 0 || ring_create(&plan, &fd, &read_fd, &error) < 0 ||
        ring_allocate_control(&plan, fd, &error) < 0 ||
        ring_allocate(&plan, fd, 0, plan.slot_count, &error) < 0 ||
        ring_map(&world.ring, fd, RING_FILL, &error) < 0)
        fail_msg("%s", error.text);
}

static int set_up(void **state) {
    struct error error = {0};
    (void)state;
    world = (struct world){0};
    make_dataset();
    make_ring();
    world.stage.stage.ops = &slow_ops;
    world.stages.of_field[0] = &world.stage.stage;
    if (chunk_plan_init(&world.plan, world.layout, &world.ring, &world.stages, &error) < 0)
        fail_msg("%s", error.text);
    world.plan.index = (const uint8_t *)world.index;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    chunk_plan_free(&world.plan);
    ring_unmap(&world.ring);
    free(world.layout);
    free(world.file);
    return 0;
}

static void read_all(void) {
    for (uint32_t i = 0; i < world.plan.request_count; i++) {
        const struct read_request *request = &world.plan.requests[i];
        const uint8_t *from = world.file + request->offset;
        for (uint32_t k = 0; k < request->piece_count; k++) {
            const struct iovec *piece = &request->pieces[k];
            if (piece->iov_base != reader_scratch)
                memcpy(piece->iov_base, from, piece->iov_len);
            from += piece->iov_len;
        }
    }
}

static void take_refusal(void *context, const struct chunk_refusal *refusal) {
    uint32_t *refused = context;
    assert_int_equal(world.index[world.plan.samples[refusal->sample]].bytes, 0);
    ++*refused;
}

// The chunk with these samples, from its reads to what is delivered.
static void go_through(const uint64_t *samples, uint32_t count, uint32_t flags) {
    const struct ring_claim claim = {.slot = 1, .count = count, .epoch = EPOCH, .chunk_count = 1};
    uint32_t refused = 0, empty = 0;
    memcpy(world.plan.samples, samples, count * sizeof *samples);
    assert_int_equal(chunk_plan_fill(&world.plan, &claim, flags), 0);
    read_all();
    world.stage.runs = 0;
    for (uint32_t i = 0; i < count; i++)
        chunk_stage_run(&world.plan, i, 1, take_refusal, &refused);
    assert_int_equal(world.stage.runs, count);
    const uint64_t *delivered = (const uint64_t *)(const void *)ring_slot_data(&world.ring, 1);
    for (uint32_t i = 0; i < count; i++) {
        const struct index_extent *extent = &world.index[samples[i]];
        empty += extent->bytes == 0;
        assert_int_equal(delivered[2 * i], extent->bytes);
        assert_int_equal(delivered[2 * i + 1], sum(world.file + extent->offset, extent->bytes));
    }
    assert_int_equal(refused, empty);
}

static void every_sample_has_its_place(void **state) {
    (void)state;
    uint64_t random = 8, samples[BATCH];
    for (uint32_t trial = 0; trial < 200; trial++) {
        const uint32_t count = 1 + (uint32_t)(fixture_random(&random) % BATCH);
        const uint64_t first = fixture_random(&random) % (SAMPLES - BATCH);
        for (uint32_t i = 0; i < count; i++) // neighbours, or any
            samples[i] = trial % 2 ? first + i : fixture_random(&random) % SAMPLES;
        go_through(samples, count,
                   trial % 3 == 0   ? 0
                   : trial % 3 == 1 ? CHUNK_MERGE
                                    : CHUNK_MERGE | CHUNK_SORT);
    }
}

static void memory_is_what_claims_need(void **state) {
    (void)state;
    const uint64_t small[] = {0, 2, 4}, large[] = {1, 3, 5, 7};
    uint64_t bytes = 0;
    assert_int_equal(chunk_varying_bytes(&world.plan), 0);
    go_through(small, COUNT_OF(small), 0);
    assert_in_range(chunk_varying_bytes(&world.plan), 1, 3 * 256);
    go_through(large, COUNT_OF(large), 0);
    for (uint32_t i = 0; i < COUNT_OF(large); i++)
        bytes += align_up(world.index[large[i]].bytes, CACHE_LINE);
    assert_int_equal(chunk_varying_bytes(&world.plan), bytes);
    go_through(small, COUNT_OF(small), 0); // it is kept
    assert_int_equal(chunk_varying_bytes(&world.plan), bytes);
    chunk_varying_trim(&world.plan);
    assert_int_equal(chunk_varying_bytes(&world.plan), 0);
    go_through(large, COUNT_OF(large), CHUNK_MERGE);
}

static void a_plan_counts_what_is_usual(void **state) {
    (void)state;
    const struct chunk_part whole = {.layout = world.layout, .stages = &world.stages};
    assert_int_equal(chunk_apart_bytes(&whole, 1, &world.ring),
                     (uint64_t)world.ring.header->chunk_samples * (MOST / 4));
}

static void only_a_slow_stage_takes_them(void **state) {
    (void)state;
    struct chunk_plan plan;
    struct error error = {0};
    world.stage.stage.ops = &quick_ops;
    assert_int_equal(chunk_plan_init(&plan, world.layout, &world.ring, &world.stages, &error), -EINVAL);
    assert_int_equal(chunk_plan_init(&plan, world.layout, &world.ring, NULL, &error), -EINVAL);
    world.stage.stage.ops = &slow_ops;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_sample_has_its_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_is_what_claims_need, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_plan_counts_what_is_usual, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_a_slow_stage_takes_them, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
