// Kept indices of windows across files: one whose hash is right and whose contents are not is not used.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/tokens/sequence_kept.h"
#include "daemon/source/tokens/sequence_layout.h"

#define PACK      3u
#define TOKENS    15u
#define WINDOWS   4u // with tokens 0 to 12
#define DOCUMENTS 4u
#define STRETCHES 3u

// An index of u16 tokens in three stretches of two files: 5 and 3 of the first, 7 of the second.
static struct {
    struct dataset_index index;
    struct index_documents documents;
    struct index_windows windows;
    struct index_stretch stretches[STRETCHES];
    uint64_t starts[DOCUMENTS];
    struct index_extent extents[WINDOWS];
    int32_t boundaries[10];
} kept;

#define PLAIN_BYTES offsetof(typeof(kept), extents)

// The same, if loaders have to decode it: each stretch is a block.
static struct {
    struct dataset_index index;
    struct index_documents documents;
    struct index_windows windows;
    struct index_stretch stretches[STRETCHES];
    uint64_t starts[DOCUMENTS];
    struct index_block blocks[STRETCHES];
} coded;

static const struct source_file files[] = {{.fd = -1, .size = 100}, {.fd = -1, .size = 60}};
static uint64_t counts[COUNT_OF(files)];

static void make_kept(bool boundaries) {
    memset(&kept, 0, sizeof kept);
    kept.index = (struct dataset_index){boundaries ? sizeof kept : PLAIN_BYTES, WINDOWS};
    kept.documents = (struct index_documents){0, DOCUMENTS, offsetof(typeof(kept), starts)};
    kept.windows = (struct index_windows){TOKENS * 2, STRETCHES};
    kept.stretches[0] = (struct index_stretch){0, 20, 0, 0};
    kept.stretches[1] = (struct index_stretch){10, 94, 0, 0};
    kept.stretches[2] = (struct index_stretch){16, 46, 1, 0};
    memcpy(kept.starts, ((uint64_t[]){0, 2, 2, 9}), sizeof kept.starts);
    static const uint32_t sizes[WINDOWS] = {12, 8, 8,
                                            8}; // 0 2 3, 0 3, 0 3, 0 3; then 4 bytes that align the end
    uint64_t at = offsetof(typeof(kept), boundaries);
    for (uint32_t i = 0; i < WINDOWS; at += sizes[i++])
        kept.extents[i] = (struct index_extent){.offset = at, .bytes = sizes[i]};
}

static bool fits_of(const void *index, uint64_t blocks, uint64_t bytes, uint64_t pack, bool boundaries) {
    struct error error = {0};
    bool taken = false;
    const struct dataset_config config = {.pack = pack, .cu_seqlens = boundaries};
    struct dataset_layout layout = {.index_bytes = bytes, .stream_count = 1, .column_count = 3u + boundaries};
    struct dataset dataset = {.layout = &layout, .index = index};
    struct builder builder = {.config = &config, .dataset = &dataset, .error = &error};
    layout.fields[0].dtype = DTYPE_U16;
    layout.blocks.count = blocks;
    layout.columns[0].bytes = (pack + 1) * 2;
    assert_int_equal(sequence_take_kept(&builder, files, COUNT_OF(files), counts, &taken), 0);
    free(builder.groups);
    if (!taken)
        return false;
    assert_int_equal(layout.columns[0].offset, offsetof(typeof(kept), windows));
    assert_int_equal(layout.columns[2].offset, offsetof(typeof(kept), documents));
    assert_int_equal(layout.columns[1].stretches, 2); // window 1 has the tokens 3 to 6
    assert_int_equal(layout.streams[0].record_bytes, 2 * pack);
    if (boundaries)
        assert_int_equal(layout.columns[3].offset, offsetof(typeof(kept), extents));
    return true;
}

static bool fits(uint64_t bytes, uint64_t pack, bool boundaries) {
    return fits_of(&kept, 0, bytes, pack, boundaries);
}

static bool plain_fits(void) {
    return fits(PLAIN_BYTES, PACK, false);
}

static void a_right_one_is_used(void **state) {
    (void)state;
    make_kept(false);
    assert_true(plain_fits());
    assert_int_equal(counts[0], 3); // windows 0 to 2 begin with tokens 0, 3 and 6
    assert_int_equal(counts[1], 1);
    make_kept(true);
    assert_true(fits(sizeof kept, PACK, true));
}

static void another_form_is_not_used(void **state) {
    (void)state;
    make_kept(false);
    assert_false(fits(PLAIN_BYTES, PACK, true));
    assert_false(fits(PLAIN_BYTES, PACK + 1, false));
    assert_false(fits(PLAIN_BYTES, TOKENS, false));
    for (uint64_t bytes = sizeof(struct dataset_index); bytes < PLAIN_BYTES; bytes += 8)
        assert_false(fits(bytes, PACK, false));
    make_kept(true);
    assert_false(fits(sizeof kept, PACK, false));
    assert_false(fits(sizeof kept - 8, PACK, true));
}

// Puts the number there, in turn, and wants none of them to be used.
static void expect_unused(void *place, const uint64_t *numbers, size_t count, size_t bytes) {
    uint8_t before[8];
    memcpy(before, place, bytes);
    for (size_t i = 0; i < count; i++) {
        memcpy(place, &numbers[i], bytes);
        if (fits(kept.index.bytes, PACK, kept.index.bytes == sizeof kept))
            fail_msg("%zu bytes at %td were believed to be %llu", bytes, (uint8_t *)place - (uint8_t *)&kept,
                     (unsigned long long)numbers[i]);
    }
    memcpy(place, before, bytes);
    assert_true(fits(kept.index.bytes, PACK, kept.index.bytes == sizeof kept));
}

#define EXPECT_UNUSED(place, ...)                                                                            \
    expect_unused(&(place), ((uint64_t[]){__VA_ARGS__}), COUNT_OF(((uint64_t[]){__VA_ARGS__})), sizeof(place))

static void numbers_that_lie_are_not_used(void **state) {
    (void)state;
    make_kept(false);
    EXPECT_UNUSED(kept.index.samples, 0, 3, 5, UINT64_MAX);
    EXPECT_UNUSED(kept.documents.first, 1);
    EXPECT_UNUSED(kept.documents.count, 0, 3, 5, INT32_MAX, UINT64_MAX, UINT64_MAX / 8 + 1);
    EXPECT_UNUSED(kept.documents.starts, 0, PLAIN_BYTES, UINT64_MAX);
    EXPECT_UNUSED(kept.windows.count, 0, 2, 4, UINT64_MAX, UINT64_MAX / 24 + 1);
    EXPECT_UNUSED(kept.windows.bytes, 0, 16, 24, 29, 32, UINT64_MAX, UINT64_MAX - 1);
    EXPECT_UNUSED(kept.stretches[0].first, 2, 10);
    EXPECT_UNUSED(kept.stretches[1].first, 0, 9, 16, 18, UINT64_MAX - 1);
    EXPECT_UNUSED(kept.stretches[1].offset, 95, 100, 101, UINT64_MAX);
    EXPECT_UNUSED(kept.stretches[2].offset, 47, 61, UINT64_MAX - 4);
    EXPECT_UNUSED(kept.stretches[1].file, 1, 2, UINT32_MAX);
    EXPECT_UNUSED(kept.starts[0], 1);
    EXPECT_UNUSED(kept.starts[2], 1, 10);
    EXPECT_UNUSED(kept.starts[3], 0, 16, UINT64_MAX);
}

static void boundaries_that_lie_are_not_used(void **state) {
    (void)state;
    make_kept(true);
    EXPECT_UNUSED(kept.extents[0].offset, 0, sizeof kept, UINT64_MAX);
    EXPECT_UNUSED(kept.extents[0].bytes, 0, 8, 13, UINT32_MAX);
    EXPECT_UNUSED(kept.extents[3].offset, 0, UINT64_MAX - 3);
    EXPECT_UNUSED(kept.extents[3].bytes, 0, 16, UINT32_MAX - 3);
}

static void make_coded(void) {
    make_kept(false);
    memset(&coded, 0, sizeof coded);
    coded.index = (struct dataset_index){sizeof coded, WINDOWS};
    coded.documents = kept.documents;
    coded.windows = kept.windows;
    memcpy(coded.starts, kept.starts, sizeof coded.starts);
    static const uint64_t bytes[STRETCHES] = {10, 6, 14};
    for (uint32_t i = 0; i < STRETCHES; i++) {
        const struct index_stretch *stretch = &kept.stretches[i];
        coded.stretches[i] = (struct index_stretch){stretch->first, 0, i, 0};
        coded.blocks[i] = (struct index_block){.stored = {{stretch->offset, bytes[i]}},
                                               .decoded = bytes[i],
                                               .codec = BLOCK_PLAIN,
                                               .file = stretch->file};
    }
}

static bool coded_fits(void) {
    return fits_of(&coded, STRETCHES, sizeof coded, PACK, false);
}

static void expect_unused_block(uint32_t stretch, uint32_t block) {
    make_coded();
    coded.stretches[stretch].file = block;
    assert_false(coded_fits());
}

// Loaders find the stretch of a block by its number.
static void blocks_that_are_not_in_order_are_not_used(void **state) {
    (void)state;
    make_coded();
    assert_true(coded_fits());
    expect_unused_block(2, 3);
    make_coded();
    coded.blocks[1].decoded = coded.blocks[1].stored[0].bytes = 5;
    assert_false(coded_fits());
    make_coded(); // one block twice, and two in the other order: each would be in its block, and in its file
    coded.blocks[0].decoded = coded.blocks[0].stored[0].bytes = 16;
    assert_true(coded_fits());
    coded.stretches[1].file = 0;
    assert_false(coded_fits());
    make_coded();
    coded.blocks[1].decoded = coded.blocks[1].stored[0].bytes = 10;
    coded.blocks[1].stored[0].offset = 90;
    assert_true(coded_fits());
    coded.stretches[0].file = 1;
    coded.stretches[1].file = 0;
    assert_false(coded_fits());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_one_is_used),
        cmocka_unit_test(another_form_is_not_used),
        cmocka_unit_test(numbers_that_lie_are_not_used),
        cmocka_unit_test(boundaries_that_lie_are_not_used),
        cmocka_unit_test(blocks_that_are_not_in_order_are_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
