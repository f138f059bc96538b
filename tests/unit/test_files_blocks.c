// The blocks of an index as feedctl read --verify decodes them: what is found and kept, and which lies are noticed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "client/ctl/files_blocks.h"

#define BLOCKS  6u // of two files, two for each of three groups of rows
#define ROWS    4u // of a group
#define GROUPS  3u
#define SAMPLES (ROWS * GROUPS)
#define BYTES   1000u // of a block when decoded

// Samples 0 to 7 are rows 0 to 7 of file 0, in two groups; the others are rows 0 to 3 of file 1. Even samples lie in
// the first block of their group, odd ones in the second.
struct layout {
    uint64_t bytes;
    struct files_extent extents[SAMPLES];
    struct index_block blocks[BLOCKS];
};

static struct world {
    struct files_index index;
    struct files_blocks blocks;
    struct layout *layout; // the words of the index
    int fd;                // of both files
} world;

static uint32_t file_of(uint64_t sample) {
    return sample < 2 * ROWS ? 0 : 1;
}

static uint64_t row_of(uint64_t sample) {
    return file_of(sample) ? sample - 2 * ROWS : sample;
}

static int check(uint64_t block_count, uint64_t table) {
    static const struct feed_array array = {.ragged = true};
    struct error error = {0};
    Feedd__Column column = FEEDD__COLUMN__INIT, *list[] = {&column};
    Feedd__Answer page = FEEDD__ANSWER__INIT;
    column.kind = FEEDD__COLUMN__KIND__BLOCKS;
    column.offset = offsetof(struct layout, extents);
    column.ragged = true;
    column.blocks = table;
    column.block_count = block_count;
    page.n_columns = 1;
    page.columns = list;
    assert_int_equal(files_index_take(&world.index, 1, &page, &error), 0);
    return files_index_check(&world.index, 0, &array, SAMPLES, 2, &error);
}

static int open_world(void **state) {
    (void)state;
    uint8_t plain[BYTES], stored[BYTES];
    struct error error = {0};
    uint64_t offset = 100;
    world =
        (struct world){.fd = memfd_create("blocks", MFD_CLOEXEC), .layout = calloc(1, sizeof(struct layout))};
    assert_true(world.fd >= 0 && world.layout);
    world.layout->bytes = sizeof *world.layout;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        memset(plain, (int)i + 1, sizeof plain);
        const size_t count = ZSTD_compress(stored, sizeof stored, plain, sizeof plain, 1);
        assert_false(ZSTD_isError(count));
        assert_int_equal(pwrite(world.fd, stored, count, (off_t)offset), count);
        world.layout->blocks[i] = (struct index_block){.stored = {{offset, count}},
                                                       .decoded = BYTES,
                                                       .file = i < 4 ? 0 : 1,
                                                       .codec = BLOCK_ZSTD,
                                                       .first_row = i < 4 ? i / 2 * ROWS : 0};
        offset += count;
    }
    for (uint32_t i = 0; i < SAMPLES; i++)
        world.layout->extents[i] =
            (struct files_extent){.offset = i, .file = i / ROWS * 2 + i % 2, .bytes = 9};
    world.index.words = (uint64_t *)(void *)world.layout;
    world.index.count = sizeof *world.layout / sizeof(uint64_t);
    assert_int_equal(check(BLOCKS, offsetof(struct layout, blocks)), 0);
    assert_int_equal(files_blocks_open(&world.blocks, &world.index, &world.index.columns[0], &error), 0);
    return 0;
}

static int close_world(void **state) {
    (void)state;
    files_blocks_close(&world.blocks);
    files_index_free(&world.index);
    close_fd(&world.fd);
    return 0;
}

static int find(uint64_t sample, struct files_block_place *place, struct error *error) {
    return files_blocks_find(&world.blocks, &world.index, &world.index.columns[0], sample, file_of(sample),
                             row_of(sample), place, error);
}

static int decode(uint64_t sample, struct error *error) {
    struct files_block_place place;
    const uint8_t *decoded;
    int err = find(sample, &place, error);
    if (!err)
        err = files_blocks_decode(&world.blocks, &place, world.fd, "F", &decoded, error);
    for (uint32_t i = 0; i < BYTES && !err; i++)
        assert_int_equal(decoded[i], place.number + 1);
    return err;
}

static void samples_are_found(void **state) {
    (void)state;
    struct error error = {0};
    struct files_block_place place;
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        assert_int_equal(find(sample, &place, &error), 0);
        assert_true(place.offset == sample && place.bytes == 9 &&
                    place.number == sample / ROWS * 2 + sample % 2);
        assert_int_equal(decode(sample, &error), 0);
    }
}

static void those_used_last_are_kept(void **state) {
    (void)state;
    struct error error = {0};
    world.blocks.most_bytes = 3 * BYTES + 1;
    static const uint64_t samples[] = {0, 1, 4, 2, 5}; // of blocks 0, 1, 2, 0 and 3: block 1 is dropped
    for (uint32_t i = 0; i < COUNT_OF(samples); i++)
        assert_int_equal(decode(samples[i], &error), 0);
    assert_int_equal(world.blocks.bytes, 3 * BYTES);
    assert_int_equal(ftruncate(world.fd, 0), 0);
    assert_int_equal(decode(0, &error), 0);
    assert_int_equal(decode(4, &error), 0);
    assert_int_equal(decode(5, &error), 0);
    assert_int_equal(decode(1, &error), -ENODATA);
    assert_non_null(strstr(error.text, "the file ends there"));
    world.blocks.most_bytes = 1; // still enough for one, which is all that is left
    assert_int_equal(ftruncate(world.fd, 0), 0);
    assert_int_equal(decode(1, &error), -ENODATA);
    assert_int_equal(world.blocks.bytes, 0);
}

static void one_block_may_have_more_than_is_kept(void **state) {
    (void)state;
    struct error error = {0};
    world.blocks.most_bytes = 1;
    for (uint64_t sample = 0; sample < SAMPLES; sample++) {
        assert_int_equal(decode(sample, &error), 0);
        assert_int_equal(world.blocks.bytes, BYTES);
    }
}

static void damaged_blocks_are_named(void **state) {
    (void)state;
    struct error error = {0};
    assert_int_equal(pwrite(world.fd, "none", 4, (off_t)world.layout->blocks[0].stored[0].offset), 4);
    assert_int_equal(decode(0, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "cannot verify: F, offset 100: its block cannot be decoded"));
    assert_int_equal(decode(1, &error), 0);
}

static void refuse(uint64_t sample, const char *part) {
    struct error error = {0};
    struct files_block_place place;
    assert_int_equal(find(sample, &place, &error), -EBADMSG);
    if (!strstr(error.text, part))
        fail_msg("%s", error.text);
}

static void wrong_entries_are_noticed(void **state) {
    (void)state;
    struct files_extent *extents = world.layout->extents;
    static const char *const elsewhere = "in a block of another file, record batch or row group";
    extents[0].file = BLOCKS;
    refuse(0, "has no block for sample 0");
    extents[1].file = 2; // of the next group
    refuse(1, elsewhere);
    extents[4].file = 1; // of the one before
    refuse(4, elsewhere);
    extents[2].file = 4; // of the other file
    refuse(2, elsewhere);
    extents[8].file = 0;
    refuse(8, elsewhere);
    extents[3].offset = BYTES - 8;
    refuse(3, "sample 3 outside of its block");
    extents[3].offset = UINT64_MAX;
    refuse(3, "sample 3 outside of its block");
    extents[3].offset = BYTES - 9;
    struct error error = {0};
    assert_int_equal(decode(3, &error), 0);
}

static void blocks_that_cannot_be_are_noticed(void **state) {
    (void)state;
    struct index_block *block = &world.layout->blocks[0];
    const struct index_block right = *block;
    block->codec = BLOCK_CODECS;
    refuse(0, "in a block that cannot be decoded");
    *block = right;
    block->stored[0].offset = UINT64_MAX;
    refuse(0, "in a block that cannot be decoded");
    *block = right;
    block->decoded = BLOCK_MAX_BYTES + 1;
    refuse(0, "in a block that cannot be decoded");
}

static void the_list_must_lie_in_the_index(void **state) {
    (void)state;
    const uint64_t table = offsetof(struct layout, blocks);
    struct error error = {0};
    assert_int_equal(check(0, table), -EPROTO);
    assert_int_equal(check(BLOCKS + 1, table), -EPROTO);
    assert_int_equal(check(BLOCKS, table + 8), -EPROTO);
    assert_int_equal(check(BLOCKS, UINT64_MAX - 7), -EPROTO);
    assert_int_equal(check(BLOCK_MAX_COUNT + 1, table), -EPROTO);
    assert_int_equal(check(BLOCKS - 1, table), 0);
    // Other columns have the same list.
    assert_int_equal(files_blocks_open(&world.blocks, &world.index, &world.index.columns[0], &error),
                     -EPROTO);
    assert_int_equal(check(BLOCKS, table), 0);
    assert_int_equal(files_blocks_open(&world.blocks, &world.index, &world.index.columns[0], &error), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples_are_found, open_world, close_world),
        cmocka_unit_test_setup_teardown(those_used_last_are_kept, open_world, close_world),
        cmocka_unit_test_setup_teardown(one_block_may_have_more_than_is_kept, open_world, close_world),
        cmocka_unit_test_setup_teardown(damaged_blocks_are_named, open_world, close_world),
        cmocka_unit_test_setup_teardown(wrong_entries_are_noticed, open_world, close_world),
        cmocka_unit_test_setup_teardown(blocks_that_cannot_be_are_noticed, open_world, close_world),
        cmocka_unit_test_setup_teardown(the_list_must_lie_in_the_index, open_world, close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
