// A ring at its limits: what is just allowed, where the parts lie, and that what is mapped is given back.
#include <sys/mman.h>

#include "base/error.h"
#include "base/sizes.h"
#include "shm/ring_make.h"
#include "tests/unit/mappings.h"
#include "tests/unit/ring_fixture.h"

#define TIB (1ull << 40)

static struct ring_plan plan_of(uint32_t slots, uint32_t batch, uint64_t sample_bytes) {
    struct ring_plan plan = {.slot_count = slots, .batch_size = batch, .field_count = 1, .samples = 1u << 20};
    plan.fields[0] = (struct ring_field){"x", DTYPE_U8, 1, {sample_bytes}, sample_bytes, 0};
    return plan;
}

static void assert_planned(struct ring_plan *plan) {
    struct error error = {0};
    if (ring_plan(plan, &error) < 0)
        fail_msg("%s", error.text);
}

// ---- Plan --------------------------------------------------------------------------------------------------

static void test_what_is_just_allowed(void **state) {
    (void)state;
    struct ring_plan batch = plan_of(1, 1, 64 * TIB), ring = plan_of(64, 1, TIB);
    assert_planned(&batch);
    assert_int_equal(batch.slot_bytes, 64 * TIB);
    assert_planned(&ring);
    assert_int_equal(ring.total_bytes, ring.data_offset + 64 * TIB);
    batch = plan_of(1, 1, 64 * TIB + 1);
    assert_int_equal(ring_plan(&batch, NULL), -EOVERFLOW);
    ring = plan_of(64, 1, TIB + 1);
    assert_int_equal(ring_plan(&ring, NULL), -EOVERFLOW);
    struct ring_plan fields = plan_of(RING_MAX_SLOTS, 3, 1);
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++)
        fields.fields[i] = fields.fields[0];
    fields.field_count = RING_MAX_FIELDS;
    assert_planned(&fields);
}

static void test_fields_of_a_page_begin_on_a_page(void **state) {
    (void)state;
    struct ring_plan plan = plan_of(1, 1, 4096);
    plan.field_count = 4;
    plan.fields[1] = (struct ring_field){"b", DTYPE_U8, 0, {0}, 1, 0};
    plan.fields[2] = (struct ring_field){"c", DTYPE_U8, 1, {4095}, 4095, 0};
    plan.fields[3] = (struct ring_field){"d", DTYPE_U8, 1, {4096}, 4096, 0};
    assert_planned(&plan);
    assert_int_equal(plan.fields[0].slot_offset, 0);
    assert_int_equal(plan.fields[1].slot_offset, 4096);
    assert_int_equal(plan.fields[2].slot_offset, 4096 + 256);
    assert_int_equal(plan.fields[3].slot_offset, 3 * 4096);
    assert_int_equal(plan.slot_bytes, 4 * 4096);
}

// By bytes into at most 64 chunks, and none of more than 4096 samples.
static void test_how_a_batch_is_cut(void **state) {
    (void)state;
    static const struct {
        uint32_t batch;
        uint64_t sample_bytes;
        uint32_t chunks;
    } cuts[] = {{1, 1, 1},     {1, 1 << 20, 1},     {2, 1 << 20, 2},     {16, 16384, 2},
                {16, 8192, 1}, {1000, 1 << 20, 63}, {4096, 1 << 20, 64}, {4096, 1, 1},
                {4097, 1, 2},  {8192, 1, 2},        {65 * 4096, 1, 65}};
    for (size_t i = 0; i < COUNT_OF(cuts); i++) {
        struct ring_plan plan = plan_of(1, cuts[i].batch, cuts[i].sample_bytes);
        assert_planned(&plan);
        assert_int_equal(plan.chunks_per_slot, cuts[i].chunks);
        plan.on_device = true;
        assert_planned(&plan);
        assert_int_equal(plan.chunks_per_slot, 1);
    }
}

// ---- Objects -----------------------------------------------------------------------------------------------

static int make(const struct ring_plan *plan) {
    struct error error = {0};
    int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    if (ring_create(plan, &fd, &read_fd, &error) < 0 || ring_allocate_control(plan, fd, &error) < 0)
        fail_msg("%s", error.text);
    return fd;
}

// Each part holds what it must, begins where the one before it ends, and on its line of the cache.
static void assert_compact(const struct ring_header *header) {
    uint64_t slots = header->slot_count;
    assert_int_equal(header->slots_offset, RING_PAGE);
    assert_int_equal(header->chunks_offset, RING_PAGE + slots * sizeof(struct ring_slot));
    assert_int_equal(header->skips_offset,
                     align_up(header->chunks_offset + 8 * slots * header->chunks_per_slot, CACHE_LINE));
    assert_int_equal(header->skip_words, (header->batch_size + 63) / 64);
    assert_int_equal(header->queue_offset,
                     align_up(header->skips_offset + 8 * slots * header->skip_words, CACHE_LINE));
    assert_in_range(header->queue_entries, 2 * slots, 4 * slots - 1);
    assert_int_equal(header->queue_entries & (header->queue_entries - 1), 0);
    assert_int_equal(header->data_offset,
                     align_up(header->queue_offset + 4ull * header->queue_entries, RING_PAGE));
    assert_int_equal(header->total_bytes, header->data_offset + slots * header->slot_bytes);
}

static void test_the_largest_numbers_can_be_mapped(void **state) {
    (void)state;
    struct ring_plan plans[] = {plan_of(RING_MAX_SLOTS, 1, 1), plan_of(1, CHUNK_MAX_SAMPLES, 1),
                                plan_of(3, 64, 1), plan_of(2, 65, 1)};
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        struct ring ring;
        struct error error = {0};
        assert_planned(&plans[i]);
        AUTO_CLOSE int fd = make(&plans[i]);
        if (ring_map(&ring, fd, RING_CONTROL, &error) < 0)
            fail_msg("%s", error.text);
        assert_compact(ring.header);
        ring_unmap(&ring);
    }
}

static void test_the_header_is_the_plan(void **state) {
    (void)state;
    struct ring_plan plan = plan_of(5, 100, 3);
    struct ring ring;
    plan.order_version = 1;
    plan.samples = 12345;
    plan.seed = 6;
    plan.fingerprint = 7;
    plan.world_size = 8;
    assert_planned(&plan);
    AUTO_CLOSE int fd = make(&plan);
    assert_int_equal(ring_map(&ring, fd, RING_READ, NULL), 0);
    assert_int_equal(ring.header->total_bytes, plan.total_bytes);
    assert_int_equal(ring.header->slot_count, 5);
    assert_int_equal(ring.header->chunks_per_slot, plan.chunks_per_slot);
    assert_int_equal(ring.header->chunk_samples, plan.chunk_samples);
    assert_int_equal(ring.header->batch_size, 100);
    assert_int_equal(ring.header->slot_bytes, plan.slot_bytes);
    assert_int_equal(ring.header->on_device, 0);
    assert_int_equal(ring.header->order_version, 1);
    assert_int_equal(ring.header->samples, 12345);
    assert_int_equal(ring.header->seed, 6);
    assert_int_equal(ring.header->fingerprint, 7);
    assert_int_equal(ring.header->world_size, 8);
    assert_int_equal(ring.header->field_count, 1);
    assert_memory_equal(ring.header->fields, plan.fields, sizeof plan.fields);
    assert_compact(ring.header);
    ring_unmap(&ring);
}

static void test_what_was_mapped_is_given_back(void **state) {
    (void)state;
    struct ring_plan plan = plan_of(4, 8, 1 << 20);
    struct ring ring;
    struct error error = {0};
    assert_planned(&plan);
    AUTO_CLOSE int fd = make(&plan);
    assert_int_equal(ring_map(&ring, fd, RING_READ, NULL), 0);
    ring_unmap(&ring);
    uint64_t before = mapped_bytes();
    for (int access = RING_CONTROL; access <= RING_READ; access++) {
        assert_int_equal(ring_map(&ring, fd, (enum ring_access)access, NULL), 0);
        uint64_t bytes = access == RING_CONTROL ? plan.data_offset : plan.total_bytes;
        assert_int_equal(mapped_bytes(), before + bytes + RING_PAGE); // and the copy of the header
        ring_unmap(&ring);
        assert_int_equal(mapped_bytes(), before);
        ring_unmap(&ring); // of a ring that is not mapped: nothing
    }
    uint64_t lie = 0;
    assert_int_equal(pwrite(fd, &lie, sizeof lie, 0), sizeof lie);
    assert_int_equal(ring_map(&ring, fd, RING_READ, &error), -EPROTO);
    assert_int_equal(mapped_bytes(), before);
}

// Whatever a loader writes over the header, everybody works with the copy.
static void test_the_header_of_a_mapped_ring_cannot_be_written(void **state) {
    (void)state;
    struct ring_plan plan = plan_of(1, 1, 1);
    struct ring ring;
    int pipes[2];
    assert_planned(&plan);
    AUTO_CLOSE int fd = make(&plan);
    assert_int_equal(ring_map(&ring, fd, RING_FILL, NULL), 0);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    assert_int_equal(read(pipes[0], (void *)ring.header, 1), -1);
    assert_int_equal(errno, EFAULT);
    close(pipes[0]);
    close(pipes[1]);
    ring_unmap(&ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_just_allowed),
        cmocka_unit_test(test_fields_of_a_page_begin_on_a_page),
        cmocka_unit_test(test_how_a_batch_is_cut),
        cmocka_unit_test(test_the_largest_numbers_can_be_mapped),
        cmocka_unit_test(test_the_header_is_the_plan),
        cmocka_unit_test(test_what_was_mapped_is_given_back),
        cmocka_unit_test(test_the_header_of_a_mapped_ring_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
