// Chunks with a ragged field: samples are read to where the places say, if the places and the sizes in the index
// agree; if not, nothing is planned.
#include "base/dtype.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/loader/chunk.h"
#include "daemon/supervisor/feeds/batch_places.h"
#include "order/order.h"
#include "shm/ring_make.h"
#include "shm/ring_places.h"
#include "tests/unit/ring_fixture.h"

#define SAMPLES 40u
#define BATCH   12u
#define MOST    100000u // bytes of a sample

// One file, whose samples lie one after another, as i16.
static struct world {
    struct dataset dataset;
    struct dataset_layout *layout;
    struct index_extent index[SAMPLES];
    struct ring ring; // with all its roles
    struct batch_places *places;
    struct chunk_plan plan;
    uint64_t offset[SAMPLES];
} world;

static void make_layout(void) {
    struct dataset_layout *layout = world.layout = calloc(1, sizeof *layout + sizeof layout->files[0]);
    uint64_t random = 5, at = 0;
    if (!layout)
        abort(); // the analyzer does not know that an assertion ends the test
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t bytes = i % 5 == 4 ? 0 : 2 * (fixture_random(&random) % (MOST / 2));
        world.index[i] = (struct index_extent){.offset = world.offset[i] = at, .bytes = (uint32_t)bytes};
        at += bytes;
    }
    layout->samples = SAMPLES;
    layout->field_count = layout->stream_count = layout->file_count = layout->column_count = 1;
    layout->index_bytes = sizeof world.index;
    layout->fields[0] = (struct ring_field){.name = "ids", .dtype = DTYPE_I16, .dimensions = 1, .ragged = 1};
    layout->streams[0].file_count = 1;
    layout->columns[0] = (struct dataset_column){.kind = COLUMN_EXTENTS, .bytes = MOST};
    layout->files[0] = (struct dataset_file){.samples = SAMPLES, .bytes = at};
    world.dataset = (struct dataset){.layout = layout, .index = (const uint8_t *)world.index, .list_fd = -1};
}

static void make_ring(void) {
    struct error error = {0};
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    struct ring_plan plan = {.slot_count = 2,
                             .batch_size = BATCH,
                             .field_count = 1,
                             .samples = SAMPLES,
                             .seed = 9,
                             .world_size = 1,
                             .order_version = ORDER_FEISTEL_1,
                             .ragged_mean = MOST / 2,
                             .ragged_usual = BATCH * MOST,
                             .ragged_most = BATCH * MOST,
                             .fields = {world.layout->fields[0]}};
    if (ring_plan(&plan, &error) < 0 || ring_create(&plan, &fd, &read_fd, &error) < 0 ||
        ring_allocate_control(&plan, fd, &error) < 0 ||
        ring_allocate(&plan, fd, 0, plan.slot_count, &error) < 0 ||
        ring_map(&world.ring, fd, RING_FILL, &error) < 0 || ring_supervise(&world.ring, &error) < 0)
        fail_msg("%s", error.text);
    assert_true(world.ring.header->chunks_per_slot > 2);
}

static int set_up(void **state) {
    struct error error = {0};
    (void)state;
    make_layout();
    make_ring();
    const struct feed_shape shape = {.dataset = &world.dataset};
    assert_int_equal(batch_places_open(&shape, &world.ring, &world.places, &error), 0);
    if (chunk_plan_init(&world.plan, world.layout, &world.ring, NULL, &error) < 0)
        fail_msg("%s", error.text);
    world.plan.index = (const uint8_t *)world.index;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    chunk_plan_free(&world.plan);
    batch_places_close(world.places);
    ring_unmap(&world.ring);
    free(world.layout);
    return 0;
}

static void dispatch(uint64_t first, uint64_t count) {
    const struct batch_place place = {.epoch = 3, .first_position = first, .count = count};
    uint64_t bytes = batch_places_compute(world.places, &world.ring, 1, &place);
    assert_true(bytes <= world.ring.header->slot_bytes);
    assert_true(ring_dispatch(&world.ring, 1, &(struct ring_batch){.run = 1}, &place));
}

// Claims the next chunk and says which samples it has.
static void claim(struct ring_claim *claim) {
    struct order order;
    assert_true(ring_claim(&world.ring, 1, claim));
    order_init(&order, ORDER_FEISTEL_1, SAMPLES, 9, 3);
    order_samples(&order, claim->first_position, claim->count, world.plan.samples);
}

static int64_t *offsets(void) {
    return (int64_t *)(void *)(ring_slot_data(&world.ring, 1) + world.ring.header->fields[0].slot_offset);
}

// ---- As it should be ---------------------------------------------------------------------------------------

// Reads as a reader would: each byte of the file is named by its place.
static void perform(const struct read_request *request) {
    uint64_t at = request->offset;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        uint8_t *to = request->pieces[i].iov_base;
        for (size_t k = 0; k < request->pieces[i].iov_len; k++)
            to[k] = (uint8_t)(at++ * 31 >> 3);
    }
}

static void check_sample(const uint8_t *values, uint64_t bytes, uint64_t sample) {
    assert_int_equal(bytes, world.index[sample].bytes);
    for (uint64_t i = 0; i < bytes; i++)
        assert_int_equal(values[i], (uint8_t)((world.offset[sample] + i) * 31 >> 3));
}

static void samples_lie_one_after_another(void **state) {
    (void)state;
    static const uint64_t counts[] = {BATCH, 5, 1};
    for (size_t round = 0; round < COUNT_OF(counts); round++) {
        uint64_t samples[BATCH] = {0}, count = counts[round];
        struct ring_claim mine;
        struct ring_values values;
        dispatch(7 * round, count);
        memset(offsets(), 0x5a, 8 * (BATCH + 1));
        for (uint32_t chunk = 0; chunk < ring_slot(&world.ring, 1)->chunk_count; chunk++) {
            claim(&mine);
            memcpy(&samples[mine.first_sample], world.plan.samples, mine.count * sizeof samples[0]);
            assert_int_equal(chunk_plan_fill(&world.plan, &mine, CHUNK_MERGE), 0);
            for (uint32_t i = 0; i < world.plan.request_count; i++)
                perform(&world.plan.requests[i]);
            (void)!ring_chunk_done(&world.ring, &mine, 0);
        }
        assert_true(ring_find_values(&world.ring, 1, 1, 0, ring_slot(&world.ring, 1)->chunk_count, &values));
        assert_int_equal(values.begin, world.ring.header->values_offset);
        assert_int_equal(offsets()[0], 0);
        assert_int_equal(2 * offsets()[count], values.end - values.begin);
        const uint8_t *data = ring_slot_data(&world.ring, 1) + values.begin;
        for (uint64_t i = 0; i < count; i++)
            check_sample(data + 2 * offsets()[i], 2 * (uint64_t)(offsets()[i + 1] - offsets()[i]),
                         samples[i]);
        ring_slot_free(&world.ring, 1);
    }
}

// The places are those of a plain sum over the order, chunk by chunk.
static void places_are_the_sums_of_sizes(void **state) {
    (void)state;
    const struct ring_header *header = world.ring.header;
    for (uint64_t first = 0; first + BATCH <= SAMPLES; first++)
        for (uint64_t count = 0; count <= BATCH; count++) {
            struct order order;
            uint64_t at = header->values_offset;
            const struct batch_place place = {.epoch = 8, .first_position = first, .count = count};
            uint64_t bytes = batch_places_compute(world.places, &world.ring, 0, &place);
            const uint64_t *own = ring_own_places(&world.ring, 0);
            order_init(&order, ORDER_FEISTEL_1, SAMPLES, 9, 8);
            for (uint64_t i = 0; i < count; i++) {
                uint64_t sample;
                if (i % header->chunk_samples == 0)
                    assert_int_equal(own[i / header->chunk_samples], at);
                order_samples(&order, first + i, 1, &sample);
                at += world.index[sample].bytes;
            }
            assert_int_equal(own[divide_up(count, header->chunk_samples)], at);
            assert_int_equal(bytes, at);
        }
}

// ---- As it should not be -----------------------------------------------------------------------------------

static void assert_refused(uint32_t place, uint64_t value) {
    struct ring_claim mine;
    const struct ring_header *header = world.ring.header;
    dispatch(0, BATCH);
    claim(&mine);
    claim(&mine); // the second chunk: it has others before and after
    assert_int_equal(mine.chunk, 1);
    uint8_t *before = malloc(header->slot_bytes);
    if (!before)
        abort();
    memcpy(before, ring_slot_data(&world.ring, 1), header->slot_bytes);
    atomic_store(&ring_places(&world.ring, 1)[place], value);
    assert_int_equal(chunk_plan_fill(&world.plan, &mine, CHUNK_MERGE), -EPROTO);
    assert_memory_equal(before, ring_slot_data(&world.ring, 1), header->slot_bytes);
    free(before);
    for (uint32_t i = 0; i < ring_slot(&world.ring, 1)->chunk_count; i++)
        atomic_store(&ring_chunks(&world.ring, 1)[i], chunk_word(CHUNK_DONE, 0, 0));
    while (ring_claim(&world.ring, 1, &mine))
        ;
    ring_slot_free(&world.ring, 1);
}

static void places_that_do_not_match_the_sizes(void **state) {
    (void)state;
    const struct ring_header *header = world.ring.header;
    const struct batch_place place = {.epoch = 3, .first_position = 0, .count = BATCH};
    uint64_t right[3];
    batch_places_compute(world.places, &world.ring, 0, &place);
    memcpy(right, ring_own_places(&world.ring, 0), sizeof right);
    assert_true(right[2] > right[1] + 2);
    static const int64_t shifts[] = {-2, -1, 1, 2, 4096, -4096, 1 << 30, INT64_MIN};
    for (size_t i = 0; i < COUNT_OF(shifts); i++) {
        assert_refused(1, right[1] + (uint64_t)shifts[i]);
        assert_refused(2, right[2] + (uint64_t)shifts[i]);
    }
    assert_refused(1, 0);
    assert_refused(1, header->values_offset - 2);
    assert_refused(2, header->slot_bytes + 2);
    assert_refused(2, UINT64_MAX);
}

static void claims_that_are_outside_the_batch(void **state) {
    (void)state;
    struct ring_claim mine;
    dispatch(0, BATCH);
    claim(&mine);
    struct ring_claim wrong = mine;
    wrong.chunk = wrong.chunk_count;
    assert_int_equal(chunk_plan_fill(&world.plan, &wrong, 0), -EPROTO);
    wrong = mine;
    wrong.chunk_count = world.ring.header->chunks_per_slot + 1;
    assert_int_equal(chunk_plan_fill(&world.plan, &wrong, 0), -EPROTO);
    assert_int_equal(chunk_plan_fill(&world.plan, &mine, 0), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(samples_lie_one_after_another),
        TEST(places_are_the_sums_of_sizes),
        TEST(places_that_do_not_match_the_sizes),
        TEST(claims_that_are_outside_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
