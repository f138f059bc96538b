// What must hold for a dataset that was taken: its index, as a loader maps it, points into its files.
#ifndef FEEDD_TESTS_FUZZ_INDEX_CHECK_H
#define FEEDD_TESTS_FUZZ_INDEX_CHECK_H

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "block/block_decode.h"
#include "daemon/source/build/index_writer.h"
#include "tests/fuzz/fuzz.h"

#define CHECKED_BLOCK (4u << 20)

static inline void check_extents(const struct dataset_layout *layout, const struct dataset_column *column,
                                 const uint8_t *index) {
    const struct index_extent *extents = (const struct index_extent *)(const void *)(index + column->offset);
    const struct ring_field *field = &layout->fields[column->field];
    for (uint64_t i = 0; i < layout->samples; i++) {
        FUZZ_CHECK(extents[i].file < layout->file_count);
        const struct dataset_file *file = &layout->files[extents[i].file];
        FUZZ_CHECK(i >= file->first_sample && i - file->first_sample < file->samples);
        FUZZ_CHECK(extents[i].offset <= file->bytes && extents[i].bytes <= file->bytes - extents[i].offset);
        FUZZ_CHECK(!field->ragged ||
                   (extents[i].bytes <= column->bytes && extents[i].bytes % dtype_bytes(field->dtype) == 0));
    }
}

// As a loader decodes them, where that does not take too much memory: what is allocated ends where the block says.
static inline void check_block(const struct index_block *block, const struct dataset *dataset) {
    static struct block_decoder decoder;
    struct error error = {0};
    const uint64_t stored_bytes = block_stored_bytes(block);
    if (block->codec == BLOCK_PLAIN || block->decoded > CHECKED_BLOCK || stored_bytes > CHECKED_BLOCK ||
        block->scratch > CHECKED_BLOCK)
        return;
    if (!decoder.lz4)
        FUZZ_CHECK(block_decoder_open(&decoder, &error) == 0);
    AUTO_FREE uint8_t *stored = malloc(stored_bytes), *decoded = malloc(block->decoded);
    AUTO_FREE uint8_t *scratch = malloc(block->scratch);
    uint8_t *to = stored;
    for (uint32_t i = 0; i < BLOCK_RANGES; to += block->stored[i++].bytes)
        FUZZ_CHECK(pread(dataset->fds[block->file], to, block->stored[i].bytes,
                         (off_t)block->stored[i].offset) == (ssize_t)block->stored[i].bytes);
    int err = block_decode(&decoder, block, stored, decoded, scratch, &error);
    FUZZ_CHECK(err ? err < 0 && *error.text : !*error.text);
}

static inline void check_blocks(const struct dataset *dataset, const uint8_t *index) {
    const struct dataset_layout *layout = dataset->layout;
    const struct index_block *blocks =
        (const struct index_block *)(const void *)(index + layout->blocks.offset);
    uint64_t coded = 0;
    FUZZ_CHECK(layout->blocks.offset + layout->blocks.count * sizeof *blocks <= layout->index_bytes);
    for (uint64_t i = 0; i < layout->blocks.count; i++) {
        FUZZ_CHECK(blocks[i].file < layout->file_count);
        FUZZ_CHECK(block_is_sound(&blocks[i], layout->files[blocks[i].file].bytes));
        coded += blocks[i].codec != BLOCK_PLAIN;
        check_block(&blocks[i], dataset);
    }
    FUZZ_CHECK(coded == layout->blocks.coded &&
               (!coded || (layout->blocks.work_memory >= layout->blocks.most_work &&
                           layout->blocks.memory >= layout->blocks.most_room)));
}

static inline void check_samples_in_blocks(const struct dataset_layout *layout,
                                           const struct dataset_column *column, const uint8_t *index) {
    const struct index_block *blocks =
        (const struct index_block *)(const void *)(index + layout->blocks.offset);
    const struct index_extent *extents = (const struct index_extent *)(const void *)(index + column->offset);
    for (uint64_t i = 0; i < layout->samples; i++) {
        FUZZ_CHECK(extents[i].file < layout->blocks.count);
        const struct index_block *block = &blocks[extents[i].file];
        FUZZ_CHECK(extents[i].offset <= block->decoded &&
                   extents[i].bytes <= block->decoded - extents[i].offset);
    }
}

static inline void check_index(const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    FUZZ_CHECK(layout->samples >= 1 && layout->column_count == layout->field_count);
    FUZZ_CHECK(dataset_stream_samples(layout, layout->streams) == layout->samples);
    struct stat status;
    FUZZ_CHECK(fstat(dataset->index_fd, &status) == 0 && (uint64_t)status.st_size == layout->index_bytes);
    const uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    FUZZ_CHECK(index != MAP_FAILED);
    const struct dataset_index *head = (const struct dataset_index *)(const void *)index;
    FUZZ_CHECK(head->bytes == layout->index_bytes && head->samples == layout->samples);
    for (uint32_t i = 0; i < layout->column_count; i++) {
        const struct dataset_column *column = &layout->columns[i];
        bool extents = column->kind == COLUMN_EXTENTS || column->kind == COLUMN_BLOCKS;
        uint64_t entry = extents ? sizeof(struct index_extent) : column->bytes;
        FUZZ_CHECK(column->field == i && column->offset % 8 == 0);
        const struct ring_field *field = &layout->fields[i];
        FUZZ_CHECK(field->ragged ? extents && dataset->sizes[i]->largest == column->bytes
                                 : column->bytes == field->sample_bytes);
        FUZZ_CHECK(column->offset + layout->samples * entry <= layout->index_bytes);
        if (column->kind == COLUMN_EXTENTS)
            check_extents(layout, column, index);
        else if (extents)
            check_samples_in_blocks(layout, column, index);
    }
    check_blocks(dataset, index);
    FUZZ_CHECK(munmap((void *)index, layout->index_bytes) == 0);
}

#endif
