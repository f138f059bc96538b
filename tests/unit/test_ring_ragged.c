// Rings with ragged fields: their plan, what is allocated of them and when, where the values of a batch lie, and that
// no lie about that is taken.
#include <sys/stat.h>

#include "base/error.h"
#include "base/sizes.h"
#include "shm/ring_make.h"
#include "shm/ring_places.h"
#include "tests/unit/ring_fixture.h"
#include "tests/unit/ring_lies.h"

#define BATCH  10u
#define USUAL  100000u
#define MOST   1000000u
#define RAGGED 2u

// A fixed field between two ragged ones; chunks of a few samples.
static struct ring_plan plan_of(uint64_t usual, uint64_t most) {
    struct ring_plan plan = {.slot_count = 3,
                             .batch_size = BATCH,
                             .field_count = 3,
                             .samples = 1000,
                             .world_size = 1,
                             .ragged_mean = 40000,
                             .ragged_usual = usual,
                             .ragged_most = most};
    plan.fields[0] = (struct ring_field){.name = "text", .dtype = DTYPE_U8, .dimensions = 1, .ragged = 1};
    plan.fields[1] = (struct ring_field){"label", DTYPE_I64, 0, {0}, 8, 0};
    plan.fields[2] = (struct ring_field){.name = "ids", .dtype = DTYPE_I32, .dimensions = 1, .ragged = 1};
    return plan;
}

static struct ring_plan made_plan(uint64_t usual, uint64_t most) {
    struct ring_plan plan = plan_of(usual, most);
    struct error error = {0};
    if (ring_plan(&plan, &error) < 0)
        fail_msg("%s", error.text);
    return plan;
}

// ---- Plan --------------------------------------------------------------------------------------------------

static void a_slot_has_room_for_the_most_and_memory_for_the_usual(void **state) {
    (void)state;
    struct ring_plan plan = made_plan(USUAL, MOST);
    assert_int_equal(plan.ragged_count, RAGGED);
    assert_int_equal(plan.fields[0].ragged, 1);
    assert_int_equal(plan.fields[2].ragged, 2);
    assert_int_equal(plan.fields[0].slot_offset, 0);
    assert_true(plan.fields[1].slot_offset >= 8 * (BATCH + 1));
    assert_true(plan.values_offset >= plan.fields[2].slot_offset + 8 * (BATCH + 1));
    assert_int_equal(plan.values_offset % RING_PAGE, 0);
    assert_true(plan.slot_bytes >= plan.values_offset + MOST + RAGGED * RING_VALUES_ALIGN);
    assert_true(plan.slot_allocated_bytes >= plan.values_offset + USUAL + RAGGED * RING_VALUES_ALIGN);
    assert_in_range(plan.slot_allocated_bytes, 1, plan.values_offset + USUAL + 3 * RING_PAGE);
    assert_int_equal(plan.slot_allocated_bytes % RING_PAGE, 0);
    assert_int_equal(plan.total_bytes, plan.data_offset + 3 * plan.slot_bytes);
    assert_int_equal(plan.allocated_bytes, plan.data_offset + 3 * plan.slot_allocated_bytes);
    assert_int_equal(plan.chunks_per_slot, 4); // by the mean: 400 KB
}

static void without_a_tail_slots_are_allocated_whole(void **state) {
    (void)state;
    static const uint64_t most[] = {0, 1, 4095, 4096, MOST};
    for (size_t i = 0; i < COUNT_OF(most); i++) {
        struct ring_plan plan = made_plan(most[i], most[i]);
        assert_int_equal(plan.slot_allocated_bytes, plan.slot_bytes);
        assert_int_equal(plan.allocated_bytes, plan.total_bytes);
    }
}

static void sizes_beyond_the_limits(void **state) {
    (void)state;
    static const uint64_t most[] = {(1ull << 46) + 1, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(most); i++) {
        struct ring_plan plan = plan_of(most[i], most[i]);
        struct error error = {0};
        plan.ragged_mean = most[i];
        assert_int_equal(ring_plan(&plan, &error), -EOVERFLOW);
        assert_non_null(strstr(error.text, "too large"));
    }
    struct ring_plan plan = plan_of(1, 1ull << 45);
    plan.batch_size = CHUNK_MAX_SAMPLES;
    plan.slot_count = 1;
    plan.ragged_mean = 1ull << 45;
    assert_int_equal(ring_plan(&plan, NULL), 0);
    assert_in_range(plan.chunks_per_slot, 1, RING_MAX_CHUNKS);
}

// ---- Memory ------------------------------------------------------------------------------------------------

struct object {
    int fd, read_fd;
    struct ring_plan plan;
    struct ring ring;
};

static int make_object(void **state) {
    static struct object object;
    struct error error = {0};
    object.plan = made_plan(USUAL, MOST);
    if (ring_create(&object.plan, &object.fd, &object.read_fd, &error) < 0 ||
        ring_allocate_control(&object.plan, object.fd, &error) < 0 ||
        ring_map(&object.ring, object.fd, RING_FILL, &error) < 0 || ring_supervise(&object.ring, &error) < 0)
        fail_msg("%s", error.text);
    *state = &object;
    return 0;
}

static int end_object(void **state) {
    struct object *object = *state;
    ring_unmap(&object->ring);
    close_fd(&object->fd);
    close_fd(&object->read_fd);
    return 0;
}

static uint64_t allocated(const struct object *object) {
    struct stat status;
    assert_int_equal(fstat(object->fd, &status), 0);
    return 512 * (uint64_t)status.st_blocks;
}

static void only_what_was_planned_is_allocated(void **state) {
    struct object *object = *state;
    const struct ring_plan *plan = &object->plan;
    struct error error = {0};
    assert_int_equal(allocated(object), plan->data_offset);
    assert_int_equal(ring_allocate(plan, object->fd, 0, plan->slot_count, &error), 0);
    assert_int_equal(allocated(object), plan->allocated_bytes);
    uint64_t tail = plan->data_offset + plan->slot_bytes + plan->slot_allocated_bytes; // of slot 1
    assert_int_equal(ring_grow(object->fd, tail, 3 * RING_PAGE, &error), 0);
    assert_int_equal(allocated(object), plan->allocated_bytes + 3 * RING_PAGE);
    assert_int_equal(ring_grow(object->fd, tail, 1ull << 50, &error), -ENOSPC);
    assert_non_null(strstr(error.text, "does not fit"));
    assert_int_equal(allocated(object), plan->allocated_bytes + 3 * RING_PAGE);
    assert_int_equal(ring_grow(-1, tail, RING_PAGE, &error), -EBADF);
    assert_non_null(strstr(error.text, "4096 more bytes"));
}

// ---- Places ------------------------------------------------------------------------------------------------

static void dispatch(struct ring *ring, uint32_t slot, uint32_t count) {
    const struct batch_place place = fixture_place(0, count, BATCH);
    assert_true(ring_dispatch(ring, slot, &(struct ring_batch){.run = 1}, &place));
}

// Field 1 has 100 bytes in each chunk, field 2 200.
static void set_places(struct ring *ring, uint32_t slot, uint32_t chunks) {
    uint64_t *own = ring_own_places(ring, slot);
    for (uint32_t chunk = 0; chunk <= chunks; chunk++) {
        own[RAGGED * chunk] = ring->header->values_offset + 100 * chunk;
        own[RAGGED * chunk + 1] = ring->header->values_offset + 4096 + 200 * chunk;
    }
    memcpy(own + RAGGED * (chunks + 1), own + RAGGED * chunks, RAGGED * sizeof *own); // nothing is left out
}

static void loaders_find_what_was_published(void **state) {
    struct ring *ring = &((struct object *)*state)->ring;
    struct ring_values values;
    uint64_t begin = ring->header->values_offset;
    set_places(ring, 2, 4);
    assert_int_equal(atomic_load(&ring_places(ring, 2)[RAGGED * 4]), 0); // not yet
    dispatch(ring, 2, BATCH);
    assert_int_equal(ring_ragged_bytes(ring, 2), 4 * 300);
    for (uint32_t first = 0; first <= 4; first++)
        for (uint32_t end = first; end <= 4; end++) {
            assert_true(ring_find_values(ring, 2, 1, first, end, &values));
            assert_int_equal(values.begin, begin + 100 * first);
            assert_int_equal(values.end, begin + 100 * end);
            assert_true(ring_find_values(ring, 2, 2, first, end, &values));
            assert_int_equal(values.begin, begin + 4096 + 200 * first);
            assert_int_equal(values.end, begin + 4096 + 200 * end);
        }
    assert_false(ring_find_values(ring, 2, 1, 0, 5, &values));
    assert_false(ring_find_values(ring, 2, 1, 2, 1, &values));
    for (uint32_t slot = 0; slot < 2; slot++) // no word of another slot was written
        for (uint64_t i = 0; i < ring_slot_places(ring->header); i++)
            assert_int_equal(atomic_load(&ring_places(ring, slot)[i]), 0);
}

static void a_shorter_batch_has_fewer_places(void **state) {
    struct ring *ring = &((struct object *)*state)->ring;
    uint32_t chunks = (uint32_t)divide_up(4, ring->header->chunk_samples);
    assert_int_equal(chunks, 2);
    set_places(ring, 0, 2);
    dispatch(ring, 0, 4);
    assert_int_equal(ring_ragged_bytes(ring, 0), 2 * 300);
    assert_int_equal(atomic_load(&ring_places(ring, 0)[RAGGED * 4]), 0);
    set_places(ring, 1, 0);
    dispatch(ring, 1, 0);
    assert_int_equal(ring_ragged_bytes(ring, 1), 0);
    struct ring_values values;
    assert_true(ring_find_values(ring, 1, 2, 0, 0, &values));
    assert_int_equal(values.begin, values.end);
}

static void lies_about_places_are_noticed(void **state) {
    struct ring *ring = &((struct object *)*state)->ring;
    const struct ring_header *header = ring->header;
    const uint64_t lies[][2] = {
        {header->values_offset - 1, header->values_offset},
        {0, header->slot_bytes},
        {header->values_offset + 1, header->values_offset},
        {header->values_offset, header->slot_bytes + 1},
        {header->values_offset, UINT64_MAX},
        {UINT64_MAX, UINT64_MAX},
    };
    struct ring_values values;
    set_places(ring, 0, 4);
    dispatch(ring, 0, BATCH);
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        atomic_store(&ring_places(ring, 0)[0], lies[i][0]);
        atomic_store(&ring_places(ring, 0)[RAGGED], lies[i][1]);
        assert_false(ring_find_values(ring, 0, 1, 0, 1, &values));
    }
    atomic_store(&ring_places(ring, 0)[0], header->values_offset);
    atomic_store(&ring_places(ring, 0)[RAGGED], header->slot_bytes);
    assert_true(ring_find_values(ring, 0, 1, 0, 1, &values));
    assert_int_equal(ring_ragged_bytes(ring, 0), 4 * 300); // the supervisor's own are what it wrote
}

static void a_copy_has_the_places_of_its_source_in_one_chunk(void **state) {
    struct object *object = *state;
    struct ring pool;
    struct ring_values values;
    struct error error = {0};
    struct ring_plan plan = plan_of(MOST, MOST);
    plan.on_device = true;
    int fd, read_fd;
    assert_int_equal(ring_plan(&plan, &error), 0);
    assert_int_equal(plan.chunks_per_slot, 1);
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), 0);
    assert_int_equal(ring_allocate_control(&plan, fd, &error), 0);
    assert_int_equal(ring_map(&pool, fd, RING_CONTROL, &error), 0);
    assert_int_equal(ring_supervise(&pool, &error), 0);
    set_places(&object->ring, 1, 4);
    dispatch(&object->ring, 1, BATCH);
    set_places(&object->ring, 2, 0);
    dispatch(&object->ring, 2, 0);
    // What loaders write does not reach the pool.
    atomic_store(&ring_places(&object->ring, 1)[0], 12345);
    assert_true(ring_dispatch_copy(&pool, 2, &object->ring, 1, 0));
    assert_true(ring_dispatch_copy(&pool, 0, &object->ring, 2, 0));
    for (uint32_t field = 1; field <= RAGGED; field++) {
        uint64_t begin = pool.header->values_offset + 4096 * (field - 1ull);
        assert_true(ring_find_values(&pool, 2, field, 0, 1, &values));
        assert_int_equal(values.begin, begin);
        assert_int_equal(values.end, begin + 400 * field);
        assert_true(ring_find_values(&pool, 0, field, 0, 1, &values));
        assert_int_equal(values.begin, begin);
        assert_int_equal(values.end, begin);
    }
    assert_int_equal(ring_ragged_bytes(&pool, 2), 4 * 300);
    ring_unmap(&pool);
    close_fd(&fd);
    close_fd(&read_fd);
}

// ---- Headers -----------------------------------------------------------------------------------------------

static const struct lie lies[] = {
    LIE("ragged fields", ragged_count, RING_MAX_FIELDS + 1),
    LIE("ragged fields", ragged_count, UINT32_MAX),
    LIE("values", ragged_count, 1),
    LIE("values", ragged_count, 0),
    LIE("values", ragged_count, 3),
    LIE("place", places_offset, 0),
    LIE("place", attempts_offset, RING_PAGE),
    LIE("place", attempts_offset, UINT64_MAX - 63),
    LIE("place", places_offset, RING_PAGE),
    LIE("place", places_offset, UINT64_MAX - 63),
    LIE("values", values_offset, 0),
    LIE("values", values_offset, 8 * BATCH),
    LIE("values", values_offset, USUAL * 2),
    LIE("values", values_offset, UINT64_MAX),
    LIE("values", slot_allocated_bytes, 0),
    LIE("values", slot_allocated_bytes, RING_PAGE + 8),
    LIE("values", slot_allocated_bytes, MOST + 16 * RING_PAGE),
    LIE("values", slot_allocated_bytes, UINT64_MAX - 4095),
    LIE("ragged field", fields[0].ragged, 2),
    LIE("ragged field", fields[1].ragged, 1),
    LIE("ragged field", fields[1].ragged, 2),
    LIE("values", fields[2].ragged, 0),
    LIE("ragged field", fields[2].ragged, 1),
    LIE("ragged field", fields[2].ragged, 3),
    LIE("field size", fields[0].shape[0], 1),
    LIE("field size", fields[0].sample_bytes, 8),
    LIE("field size", fields[0].dimensions, 0),
    LIE("ragged field", fields[0].dimensions, 2),
    LIE("outside its slot", fields[1].slot_offset, 64),
    LIE("outside its slot", fields[2].slot_offset, 64),
};

static void no_lie_is_taken(void **state) {
    struct object *object = *state;
    check_lies(object->fd, lies, COUNT_OF(lies));
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_object, end_object)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_has_room_for_the_most_and_memory_for_the_usual),
        cmocka_unit_test(without_a_tail_slots_are_allocated_whole),
        cmocka_unit_test(sizes_beyond_the_limits),
        CASE(only_what_was_planned_is_allocated),
        CASE(loaders_find_what_was_published),
        CASE(a_shorter_batch_has_fewer_places),
        CASE(lies_about_places_are_noticed),
        CASE(a_copy_has_the_places_of_its_source_in_one_chunk),
        CASE(no_lie_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
