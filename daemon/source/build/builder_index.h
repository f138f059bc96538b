// The index of a dataset whose samples lie anywhere and differ in size: from rows, one per sample, as formats find
// them, to columns in sealed memory, as loaders map them.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_INDEX_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_INDEX_H

#include "daemon/source/build/builder.h"

// As for indices of views: what an archive of tiny members can make the daemon keep in memory.
#define INDEX_MAX_SAMPLES (1u << 27)

// A column, and where its entry lies in a row. An entry takes sizeof(struct index_extent), or the bytes of a value.
struct index_field {
    struct dataset_column column; // `offset` is set by builder_index
    uint32_t row_offset;
};

// The blocks of one file, in any order.
struct index_blocks {
    struct index_block *blocks;
    uint64_t count, room;
};

// Adds a block, which is of file `block->file` of the dataset; `*number` is its place in here. -ENOMEM, or -EFBIG if
// there are too many.
int index_blocks_add(struct index_blocks *blocks, const struct index_block *block, uint32_t *number);

// The samples of one file, in order.
struct index_rows {
    uint8_t *rows;
    uint64_t count, room;
    // For a format with blocks, of which a file with samples has at least one: the extents in its rows name blocks in
    // here by number, and offsets in what those become. A column of which all blocks, in all files, are plain becomes
    // one of extents.
    struct index_blocks blocks;
    uint32_t coded_columns; // bits: columns of extents that have a block that is not plain
};

// The first of `count` more rows, which are to be written; NULL: no memory.
uint8_t *index_rows_grow(struct index_rows *rows, uint64_t count, size_t row_bytes);
// False: no memory.
bool index_rows_add(struct index_rows *rows, const void *row, size_t row_bytes);
void index_rows_release(struct index_rows *rows);

// Sets the dataset's columns and the size of its index; what follows is to be written there. There are `blocks` blocks,
// and the columns of `coded` (bits) are columns of blocks.
void builder_index_place(struct builder *builder, uint64_t samples, const struct index_field *fields,
                         uint32_t field_count, uint64_t blocks, uint32_t coded);

// Adds a block of the table to what the layout says of all of them.
void builder_index_count_block(struct dataset_layout *layout, const struct index_block *block);

// What follows the columns in the index (text_offset in the layout).
struct index_text {
    const char *text;
    uint64_t bytes;
};

// Makes the dataset's index and its columns: the samples of parts[0], then those of parts[1], and so on. `text` may be
// NULL: there is none.
int builder_index(struct builder *builder, const struct index_rows *parts, uint32_t part_count,
                  size_t row_bytes, const struct index_field *fields, uint32_t field_count,
                  const struct index_text *text);

// The same, with the bits of samples that are incomplete (incomplete.h), one per sample in whole words, or NULL.
int builder_index_marked(struct builder *builder, const struct index_rows *parts, uint32_t part_count,
                         size_t row_bytes, const struct index_field *fields, uint32_t field_count,
                         const struct index_text *text, const uint64_t *incomplete);

// ... and how many bytes these are.
static inline uint64_t builder_index_mark_bytes(uint64_t samples) {
    return (samples + 63) / 64 * 8;
}
// Maps the index for this process, unless it is mapped: dataset->index.
int builder_index_map(struct builder *builder);
void builder_index_unmap(struct builder *builder);

// The index is damaged, or does not fit: as before it was made.
void builder_index_discard(struct builder *builder);

#endif
