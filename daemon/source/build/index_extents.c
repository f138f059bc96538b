#include "daemon/source/build/index_extents.h"

#include "daemon/source/build/builder_index.h"

// Whether the samples of each file lie in it, as loaders take for granted.
static bool extents_lie_in(const struct index_extent *extents, const struct source_file *files,
                           const uint64_t *counts, uint32_t file_count) {
    for (uint32_t file = 0; file < file_count; extents += counts[file], file++)
        for (uint64_t i = 0; i < counts[file]; i++)
            if (extents[i].file != file || extents[i].offset > files[file].size ||
                extents[i].bytes > files[file].size - extents[i].offset)
                return false;
    return true;
}

// The same of samples in blocks, which are of the file that the samples are of.
static bool blocks_lie_in(const struct dataset_layout *layout, const struct index_block *blocks,
                          const struct index_extent *extents, const uint64_t *counts, uint32_t file_count) {
    for (uint32_t file = 0; file < file_count; extents += counts[file], file++)
        for (uint64_t i = 0; i < counts[file]; i++) {
            if (extents[i].file >= layout->blocks.count)
                return false;
            const struct index_block *block = &blocks[extents[i].file];
            if (block->file != file || extents[i].offset > block->decoded ||
                extents[i].bytes > block->decoded - extents[i].offset)
                return false;
        }
    return true;
}

static bool take_blocks(struct dataset_layout *layout, const struct index_block *blocks,
                        const struct source_file *files, uint32_t file_count) {
    for (uint64_t i = 0; i < layout->blocks.count; i++) {
        if (blocks[i].file >= file_count || !block_is_sound(&blocks[i], files[blocks[i].file].size))
            return false;
        builder_index_count_block(layout, &blocks[i]);
    }
    return true;
}

int index_extents_check(struct builder *builder, const struct source_file *files, const uint64_t *counts,
                        uint32_t file_count, bool *fit) {
    const struct dataset *dataset = builder->dataset;
    struct dataset_layout *layout = dataset->layout;
    int err = builder_index_map(builder);
    if (err)
        return err;
    const void *blocks = dataset->index + layout->blocks.offset;
    *fit = take_blocks(layout, blocks, files, file_count);
    for (uint32_t i = 0; i < layout->column_count && *fit; i++) {
        const void *column = dataset->index + layout->columns[i].offset;
        if (layout->columns[i].kind == COLUMN_EXTENTS)
            *fit = extents_lie_in(column, files, counts, file_count);
        else if (layout->columns[i].kind == COLUMN_BLOCKS)
            *fit = blocks_lie_in(layout, blocks, column, counts, file_count);
    }
    return 0;
}
