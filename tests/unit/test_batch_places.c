// The places of batches of a dataset or view with a ragged field are those of its samples' sizes, looked up one by one:
// for batches one after another, here and there, and of the next epoch, with and without tables of sizes, and where
// others take the places of incomplete samples.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/dataset/column_size.h"
#include "daemon/dataset/size_table.h"
#include "daemon/supervisor/feeds/batch_places.h"
#include "order/replace.h"
#include "shm/ring_make.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/ring_fixture.h"

#define SAMPLES 5003u
#define LISTED  2000u // samples of the view
#define SEED    11u
#define EPOCH   4u

static struct world {
    struct dataset dataset;
    struct dataset_layout *layout;
    struct {
        struct index_extent extents[SAMPLES];
        uint64_t incomplete[SAMPLES / 64 + 1];
    } index;
    uint64_t samples; // of the dataset, or of the view
    struct dataset_list *list;
    bool replaces;
    uint64_t batch_size;
    struct ring ring;
    struct batch_places *places;
} world;

// ---- What there is -----------------------------------------------------------------------------------------

static void make_dataset(uint64_t most) {
    struct dataset_layout *layout = world.layout = calloc(1, sizeof *layout);
    uint64_t random = most;
    if (!layout)
        abort(); // the analyzer does not know that an assertion ends the test
    for (uint32_t i = 0; i < SAMPLES; i++)
        world.index.extents[i].bytes = i % 7 == 3 ? 0 : (uint32_t)(1 + fixture_random(&random) % most);
    memset(world.index.incomplete, 0, sizeof world.index.incomplete);
    world.samples = layout->samples = SAMPLES;
    layout->field_count = layout->column_count = 1;
    layout->index_bytes = sizeof world.index;
    layout->fields[0] = (struct ring_field){.name = "ids", .dtype = DTYPE_U8, .dimensions = 1, .ragged = 1};
    layout->columns[0] = (struct dataset_column){.kind = COLUMN_EXTENTS, .bytes = most};
    world.dataset = (struct dataset){.layout = layout, .index = (const uint8_t *)&world.index, .list_fd = -1};
}

static void make_table(void) {
    world.dataset.size_tables[0] = size_table_make(world.layout->columns, world.dataset.index, SAMPLES);
    assert_non_null(world.dataset.size_tables[0]);
}

static void lack_samples(void) {
    world.layout->incomplete_offset = sizeof world.index.extents;
    for (uint32_t i = 0; i < SAMPLES; i += 5)
        world.index.incomplete[i / 64] |= UINT64_C(1) << i % 64;
    world.replaces = true;
}

// A view: every third sample and some of them twice.
static void list_samples(void) {
    const size_t bytes = sizeof *world.list + LISTED * sizeof(uint64_t);
    world.dataset.list_fd = memfd_create("list", MFD_CLOEXEC);
    assert_int_equal(ftruncate(world.dataset.list_fd, (off_t)bytes), 0);
    world.list = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, world.dataset.list_fd, 0);
    assert_ptr_not_equal(world.list, MAP_FAILED);
    for (uint32_t i = 0; i < LISTED; i++)
        world.list->words[i] = 3 * (i % 1600);
    world.samples = world.layout->samples = LISTED;
    world.layout->selection =
        (struct selection){.kind = SELECTION_LIST, .of = SAMPLES, .count = LISTED, .seed = 1};
}

static void open_places(uint64_t batch_size, enum order_version version) {
    struct error error = {0};
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    struct ring_plan plan = {.slot_count = 1,
                             .batch_size = (uint32_t)batch_size,
                             .field_count = 1,
                             .samples = world.samples,
                             .seed = SEED,
                             .world_size = 1,
                             .order_version = version,
                             .ragged_mean = 2000, // some chunks
                             .ragged_usual = 1,
                             .ragged_most = batch_size * world.layout->columns[0].bytes,
                             .replaces = world.replaces,
                             .fields = {world.layout->fields[0]}};
    if (ring_plan(&plan, &error) < 0 || ring_create(&plan, &fd, &read_fd, &error) < 0 ||
        ring_allocate_control(&plan, fd, &error) < 0 || ring_map(&world.ring, fd, RING_CONTROL, &error) < 0 ||
        ring_supervise(&world.ring, &error) < 0)
        fail_msg("%s", error.text);
    const struct feed_shape shape = {.dataset = &world.dataset};
    assert_int_equal(batch_places_open(&shape, &world.ring, &world.places, &error), 0);
    world.batch_size = batch_size;
}

static int tear_down(void **state) {
    (void)state;
    batch_places_close(world.places);
    ring_unmap(&world.ring);
    if (world.list)
        munmap(world.list, sizeof *world.list + LISTED * sizeof(uint64_t));
    if (world.dataset.list_fd >= 0)
        close(world.dataset.list_fd);
    free(world.dataset.size_tables[0]);
    free(world.layout);
    world.list = NULL;
    world.replaces = false;
    return 0;
}

// ---- How it should be --------------------------------------------------------------------------------------

static uint64_t stored(uint64_t sample) {
    return world.list ? world.list->words[sample] : sample;
}

static bool is_incomplete(uint64_t sample) {
    return world.replaces && world.index.incomplete[sample / 64] >> sample % 64 & 1;
}

static uint64_t bytes_at(const struct order *order, uint64_t epoch, uint64_t position, uint8_t *attempts) {
    uint64_t sample = stored(order_sample(order, position));
    *attempts = 0;
    while (*attempts < REPLACE_ATTEMPTS && is_incomplete(sample))
        sample = stored(replace_number(SEED, epoch, position, ++*attempts, world.samples));
    return world.index.extents[sample].bytes;
}

static void check_batch(uint64_t epoch, uint64_t first) {
    const struct batch_place place = {
        .epoch = epoch, .first_position = first, .count = min_u64(world.batch_size, world.samples - first)};
    const uint64_t bytes = batch_places_compute(world.places, &world.ring, 0, &place);
    const struct ring_header *header = world.ring.header;
    const uint64_t *own = ring_own_places(&world.ring, 0);
    uint64_t at = align_up(header->values_offset, RING_VALUES_ALIGN);
    struct order order;
    uint8_t attempts;
    order_init(&order, (enum order_version)header->order_version, world.samples, SEED, epoch);
    for (uint64_t i = 0; i < place.count; i++) {
        if (i % header->chunk_samples == 0)
            assert_int_equal(own[i / header->chunk_samples], at);
        at += bytes_at(&order, epoch, first + i, &attempts);
        if (world.replaces)
            assert_int_equal(ring_own_attempts(&world.ring, 0)[i], attempts);
    }
    assert_int_equal(own[divide_up(place.count, header->chunk_samples)], at);
    assert_int_equal(bytes, at);
}

static void check_batches(void) {
    const uint64_t size = world.batch_size;
    uint64_t random = size;
    for (uint64_t epoch = EPOCH; epoch < EPOCH + 2; epoch++) // one after another, to the end
        for (uint64_t first = 0; first < world.samples; first += size)
            check_batch(epoch, first);
    check_batch(EPOCH + 1, world.samples - 1);                         // the last position again
    for (uint64_t first = 0; first < world.samples; first += 8 * size) // three of eight ranks
        for (uint64_t rank = 0; rank < 3 && first + rank * size < world.samples; rank++)
            check_batch(EPOCH, first + rank * size);
    for (uint32_t i = 0; i < 100; i++) // here and there, and what follows, twice
        for (uint64_t first = fixture_random(&random) % world.samples, end = first + 3 * size;
             first < min_u64(end, world.samples); first += size) {
            check_batch(EPOCH + i % 3, first);
            check_batch(EPOCH + i % 3, first);
        }
}

// ---- Tests -------------------------------------------------------------------------------------------------

static const uint64_t batch_sizes[] = {1, 7, 64, 257, 1500};

static void check(void **state, uint64_t most, bool table, void (*change)(void), enum order_version version) {
    for (uint32_t i = 0; i < COUNT_OF(batch_sizes); i++) {
        make_dataset(most);
        if (table)
            make_table();
        if (change)
            change();
        open_places(batch_sizes[i], version);
        check_batches();
        tear_down(state);
    }
}

static void with_a_table_of_small_sizes(void **state) {
    check(state, UINT16_MAX, true, NULL, ORDER_FEISTEL_1);
}

static void with_a_table_of_large_sizes(void **state) {
    check(state, UINT16_MAX + 1, true, NULL, ORDER_FEISTEL_1);
    check(state, 3 * UINT16_MAX, true, NULL, ORDER_SEQUENTIAL);
}

static void without_a_table(void **state) {
    check(state, 3000, false, NULL, ORDER_FEISTEL_1);
    check(state, 3000, false, NULL, ORDER_SEQUENTIAL);
}

static void of_a_view(void **state) {
    check(state, 3000, true, list_samples, ORDER_FEISTEL_1);
    check(state, 3000, false, list_samples, ORDER_FEISTEL_1);
}

static void with_others_in_place_of_incomplete_samples(void **state) {
    check(state, 3000, true, lack_samples, ORDER_FEISTEL_1);
    check(state, 3000, false, lack_samples, ORDER_FEISTEL_1);
}

static void tables_that_would_be_too_large_are_not_made(void **state) {
    (void)state;
    const struct dataset_column column = {.kind = COLUMN_EXTENTS};
    struct index_extent large = {.bytes = UINT16_MAX + 1};
    const uint64_t most = SIZE_TABLE_MOST / sizeof(uint16_t);
    struct size_table *table;
    // The first of them decides.
    assert_null(size_table_make(&column, (const uint8_t *)&large, most));
    assert_null(size_table_make(&column, NULL, most + 1));
    table = size_table_make(&column, (const uint8_t *)&large, 1);
    assert_non_null(table);
    assert_int_equal(size_table_sum(table, (uint64_t[]){0, UINT64_MAX, 0}, 3), 2 * large.bytes);
    free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_a_table_of_small_sizes),
        cmocka_unit_test(with_a_table_of_large_sizes),
        cmocka_unit_test(without_a_table),
        cmocka_unit_test(of_a_view),
        cmocka_unit_test(with_others_in_place_of_incomplete_samples),
        cmocka_unit_test(tables_that_would_be_too_large_are_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
