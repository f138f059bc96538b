// What must hold for windows of packed documents that were taken: the index, as a loader maps it.
#ifndef FEEDD_TESTS_FUZZ_WINDOW_CHECK_H
#define FEEDD_TESTS_FUZZ_WINDOW_CHECK_H

#include <sys/mman.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/index_writer.h"
#include "tests/fuzz/index_check.h"

// The last column: each list follows the one before it, and rises from 0 to the end of the window.
static inline void check_boundaries(const struct dataset_layout *layout, const uint8_t *index,
                                    uint64_t pack) {
    const struct dataset_column *column = &layout->columns[layout->column_count - 1];
    const struct index_extent *extents = (const struct index_extent *)(const void *)(index + column->offset);
    uint64_t at = column->offset + layout->samples * sizeof *extents;
    for (uint64_t i = 0; i < layout->samples; i++) {
        const int32_t *list = (const int32_t *)(const void *)(index + extents[i].offset);
        uint32_t count = extents[i].bytes / (uint32_t)sizeof *list;
        FUZZ_CHECK(extents[i].offset == at && extents[i].bytes % sizeof *list == 0 && count >= 2);
        at += extents[i].bytes;
        FUZZ_CHECK(at <= layout->index_bytes && list[0] == 0 && list[count - 1] == (int32_t)pack);
        for (uint32_t k = 1; k < count; k++)
            FUZZ_CHECK(list[k - 1] < list[k]);
    }
    FUZZ_CHECK(align_up(at, 8) == layout->index_bytes);
}

// Where documents begin, of windows across files; `end`: where that table ends.
static inline void check_starts(const struct dataset_layout *layout, const uint8_t *index, uint64_t tokens,
                                uint64_t *end) {
    const struct index_documents *documents =
        (const struct index_documents *)(const void *)(index + layout->columns[1].offset);
    const uint64_t *starts = (const uint64_t *)(const void *)(index + documents->starts);
    FUZZ_CHECK(documents->first == 0 && documents->count >= 1 && documents->count <= INT32_MAX);
    *end = documents->starts + documents->count * sizeof *starts;
    FUZZ_CHECK(*end <= layout->index_bytes && starts[0] == 0);
    for (uint64_t i = 1; i < documents->count; i++)
        FUZZ_CHECK(starts[i - 1] <= starts[i] && starts[i] <= tokens);
}

// Stretches rise, are not empty, and lie in their files; the last window ends with them.
static inline void check_stretches(const struct dataset_layout *layout, const uint8_t *index) {
    const struct index_windows *windows =
        (const struct index_windows *)(const void *)(index + layout->columns[0].offset);
    const struct index_stretch *stretches = (const struct index_stretch *)(const void *)(windows + 1);
    FUZZ_CHECK(windows->count >= 1 && stretches[0].first == 0);
    for (uint64_t i = 0; i < windows->count; i++) {
        const uint64_t end = i + 1 < windows->count ? stretches[i + 1].first : windows->bytes;
        const struct index_block *blocks =
            (const struct index_block *)(const void *)(index + layout->blocks.offset);
        const uint64_t places = layout->blocks.count ? layout->blocks.count : layout->file_count;
        FUZZ_CHECK(stretches[i].first < end && stretches[i].file < places);
        const uint64_t room =
            layout->blocks.count ? blocks[stretches[i].file].decoded : layout->files[stretches[i].file].bytes;
        FUZZ_CHECK(stretches[i].offset <= room && end - stretches[i].first <= room - stretches[i].offset);
    }
    FUZZ_CHECK((layout->samples - 1) * layout->streams[0].record_bytes + layout->columns[0].bytes <=
               windows->bytes);
}

static inline void check_windows_across(const struct dataset *dataset, uint64_t pack, bool boundaries) {
    const struct dataset_layout *layout = dataset->layout;
    const uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    FUZZ_CHECK(index != MAP_FAILED);
    const uint64_t token_bytes = dtype_bytes(layout->fields[0].dtype);
    const struct index_windows *windows =
        (const struct index_windows *)(const void *)(index + layout->columns[0].offset);
    uint64_t end;
    FUZZ_CHECK(layout->samples >= 1 && layout->column_count == 3u + boundaries);
    FUZZ_CHECK(layout->columns[0].kind == COLUMN_WINDOWS &&
               layout->columns[0].bytes == token_bytes * (pack + 1));
    FUZZ_CHECK(layout->columns[0].stretches >= 1 && layout->columns[0].stretches <= DATASET_MAX_STRETCHES);
    for (uint32_t i = 1; i < 3; i++)
        FUZZ_CHECK(layout->columns[i].bytes == 4 * (pack + 1) && layout->columns[i].stretches);
    check_stretches(layout, index);
    check_starts(layout, index, windows->bytes / token_bytes, &end);
    if (layout->blocks.count) {
        FUZZ_CHECK(layout->blocks.offset == end);
        check_blocks(dataset, index);
        end += layout->blocks.count * sizeof(struct index_block);
    }
    FUZZ_CHECK(end == (boundaries ? layout->columns[3].offset : layout->index_bytes));
    if (boundaries)
        check_boundaries(layout, index, pack);
    FUZZ_CHECK(munmap((void *)index, layout->index_bytes) == 0);
}

#endif
