// Indices with blocks: how they are made of rows, and lies about blocks, which loaders never see.
#include <sys/mman.h>

#include "base/sizes.h"
#include "daemon/source/build/builder_index.h"
#include "daemon/source/build/index_extents.h"
#include "tests/unit/source_fixture.h"

#define ROWS 3u // of each of two files

// A row of two columns of extents. The first file's blocks are: a coded one for the first column, and a plain one for
// the second. The other file has only plain ones.
struct row {
    struct index_extent coded, plain;
};

static struct world {
    struct dataset dataset;
    struct builder builder;
    struct error error;
    uint8_t *index;
    struct source_file files[2];
    uint64_t counts[2];
} world;

static const struct index_field fields[] = {
    {.column = {.field = 0, .kind = COLUMN_EXTENTS, .bytes = 8}, .row_offset = 0},
    {.column = {.field = 1, .kind = COLUMN_EXTENTS, .bytes = 8}, .row_offset = sizeof(struct index_extent)},
};

static void add_blocks(struct index_rows *rows, uint32_t file) {
    uint32_t number;
    const struct index_block coded = {
        .stored = {{100, 50}}, .decoded = 300, .file = file, .codec = file ? BLOCK_PLAIN : BLOCK_ZSTD};
    const struct index_block plain = {.stored = {{200, 60}}, .decoded = 60, .file = file};
    assert_int_equal(index_blocks_add(&rows->blocks, &coded, &number), 0);
    if (file)
        rows->blocks.blocks[0].decoded = 50;
    assert_int_equal(index_blocks_add(&rows->blocks, &plain, &number), 0);
    rows->coded_columns = file ? 0 : 1;
}

static int make(void **state) {
    (void)state;
    struct index_rows parts[2] = {0};
    world = (struct world){.files = {{.size = 1000}, {.size = 1000}}, .counts = {ROWS, ROWS}};
    world.dataset.layout = calloc(1, sizeof *world.dataset.layout);
    world.builder = (struct builder){.dataset = &world.dataset, .error = &world.error};
    for (uint32_t file = 0; file < 2; file++) {
        add_blocks(&parts[file], file);
        for (uint32_t i = 0; i < ROWS; i++) {
            const struct row row = {{i, 0, 5}, {10 * i, 1, 6}};
            assert_true(index_rows_add(&parts[file], &row, sizeof row));
        }
    }
    assert_int_equal(builder_index(&world.builder, parts, 2, sizeof(struct row), fields, 2, NULL), 0);
    for (uint32_t file = 0; file < 2; file++)
        index_rows_release(&parts[file]);
    world.index = malloc(world.dataset.layout->index_bytes);
    if (!world.index || pread(world.dataset.index_fd, world.index, world.dataset.layout->index_bytes, 0) !=
                            (ssize_t)world.dataset.layout->index_bytes)
        return -1;
    close(world.dataset.index_fd);
    return 0;
}

static int drop(void **state) {
    (void)state;
    free(world.index);
    free(world.dataset.layout);
    return 0;
}

static struct index_block *block(uint32_t number) {
    return (struct index_block *)(void *)(world.index + world.dataset.layout->blocks.offset) + number;
}

static struct index_extent *extent(uint32_t column, uint32_t row) {
    return (struct index_extent *)(void *)(world.index + world.dataset.layout->columns[column].offset) + row;
}

// Whether the index, as it is now, is taken.
static bool fits(void) {
    const uint64_t bytes = world.dataset.layout->index_bytes;
    bool fit;
    world.dataset.index_fd = memfd_create("index", MFD_CLOEXEC);
    assert_int_equal(pwrite(world.dataset.index_fd, world.index, bytes, 0), bytes);
    assert_int_equal(index_extents_check(&world.builder, world.files, world.counts, 2, &fit), 0);
    builder_index_unmap(&world.builder);
    close(world.dataset.index_fd);
    return fit;
}

static void a_column_without_coded_blocks_is_one_of_extents(void **state) {
    (void)state;
    const struct dataset_layout *layout = world.dataset.layout;
    assert_int_equal(layout->columns[0].kind, COLUMN_BLOCKS);
    assert_int_equal(layout->columns[1].kind, COLUMN_EXTENTS);
    assert_int_equal(layout->blocks.count, 4);
    assert_int_equal(layout->blocks.coded, 1);
    assert_int_equal(layout->blocks.largest, 300);
    for (uint32_t i = 0; i < 2 * ROWS; i++) {
        assert_int_equal(extent(0, i)->file, i < ROWS ? 0 : 2); // a block
        assert_int_equal(extent(0, i)->offset, i % ROWS);
        assert_int_equal(extent(1, i)->file, i / ROWS); // a file
        assert_int_equal(extent(1, i)->offset, 200 + 10 * (i % ROWS));
    }
    assert_true(fits());
}

static void samples_beyond_their_block_are_not_used(void **state) {
    (void)state;
    extent(0, 1)->offset = 295;
    assert_true(fits());
    const uint64_t offsets[] = {296, 301, UINT64_MAX, UINT64_MAX - 4};
    for (size_t i = 0; i < COUNT_OF(offsets); i++) {
        extent(0, 1)->offset = offsets[i];
        assert_false(fits());
    }
    *extent(0, 1) = (struct index_extent){0, 0, UINT32_MAX};
    assert_false(fits());
}

static void samples_in_other_blocks_are_not_used(void **state) {
    (void)state;
    const uint32_t blocks[] = {2, 3, 4, UINT32_MAX}; // of another file, or none
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        extent(0, 0)->file = blocks[i];
        assert_false(fits());
    }
}

static void blocks_that_cannot_be_are_not_used(void **state) {
    (void)state;
    const struct index_block wrong[] = {
        {.stored = {{951, 50}}, .decoded = 300, .codec = BLOCK_ZSTD},
        {.stored = {{UINT64_MAX, 50}}, .decoded = 300, .codec = BLOCK_ZSTD},
        {.stored = {{100, UINT64_MAX}}, .decoded = 300, .codec = BLOCK_ZSTD},
        {.stored = {{100, 50}, {990, 11}}, .decoded = 300, .codec = BLOCK_ZSTD},
        {.stored = {{100, 0}}, .decoded = 300, .codec = BLOCK_ZSTD},
        {.stored = {{100, 50}}, .decoded = BLOCK_MAX_BYTES + 1, .codec = BLOCK_ZSTD},
        {.stored = {{100, 50}}, .decoded = 300, .scratch = UINT64_MAX, .codec = BLOCK_ZSTD},
        {.stored = {{100, 50}}, .decoded = 300, .codec = BLOCK_CODECS},
        {.stored = {{100, 50}}, .decoded = 300, .codec = BLOCK_PLAIN},
        {.stored = {{100, 50}}, .decoded = 300, .codec = BLOCK_ZSTD, .file = 1},
        {.stored = {{100, 50}}, .decoded = 300, .codec = BLOCK_ZSTD, .file = 2},
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        *block(0) = wrong[i];
        assert_false(fits());
    }
    *block(0) = (struct index_block){.stored = {{100, 50}}, .decoded = 300, .codec = BLOCK_LZ4_FRAME};
    assert_true(fits());
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
    const struct CMUnitTest tests[] = {
        TEST(a_column_without_coded_blocks_is_one_of_extents),
        TEST(samples_beyond_their_block_are_not_used),
        TEST(samples_in_other_blocks_are_not_used),
        TEST(blocks_that_cannot_be_are_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
