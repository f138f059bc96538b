#include "daemon/source/arrow/arrow_sequence.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"

static struct index_extent row_of(const struct index_rows *part, uint64_t row) {
    struct index_extent extent;
    memcpy(&extent, part->rows + row * sizeof extent, sizeof extent); // the one field's
    return extent;
}

static int refuse_apart(struct builder *builder, const char *path, const struct arrow_want *want) {
    return builder_refuse(builder, -ENOTSUP, path,
                          "found the values of column \"%s\" apart from each other, wanted a column of lists,"
                          " which pack can lay end to end",
                          want->path);
}

// A file whose rows are being added. Its stretches lie in blocks from number `first_block` on, or in the file itself.
struct adding {
    struct sequence *sequence;
    const struct index_rows *part;
    uint64_t token_bytes;
    uint64_t first_block;
    uint64_t next_block; // of the file: rows have left those before it
    uint32_t file;
    bool in_blocks;
};

// Adds the rows of one record batch or row group from `row` on, if their values follow each other. Returns the row
// after them; 0: they do not.
static uint64_t add_batch(struct adding *adding, uint64_t row) {
    const struct index_extent first = row_of(adding->part, row);
    const struct index_block *block = &adding->part->blocks.blocks[first.file];
    uint64_t end = first.offset;
    if (first.file < adding->next_block)
        return 0;
    adding->next_block = first.file + 1ull;
    for (; row < adding->part->count; row++) {
        const struct index_extent extent = row_of(adding->part, row);
        if (extent.file != first.file)
            break;
        if (extent.offset != end)
            return 0;
        end += extent.bytes;
        sequence_add_document(adding->sequence, extent.bytes / adding->token_bytes);
    }
    const uint64_t tokens = (end - first.offset) / adding->token_bytes;
    if (adding->in_blocks)
        sequence_add_stretch(adding->sequence, adding->first_block + first.file, first.offset, tokens);
    else
        sequence_add_stretch(adding->sequence, adding->file, block->stored[0].offset + first.offset, tokens);
    return row;
}

static int add_file(struct builder *builder, const struct indexed_files *files, struct adding *adding,
                    const struct arrow_want *want) {
    for (uint64_t row = 0; row < adding->part->count;)
        if (!(row = add_batch(adding, row)))
            return refuse_apart(builder, files->files[adding->file].path, want);
    sequence_end_file(adding->sequence);
    return 0;
}

static struct sequence_room room_of(const struct indexed_files *files) {
    struct sequence_room room = {.files = files->count};
    bool coded = false;
    for (uint32_t i = 0; i < files->count; i++) {
        coded |= files->parts[i].coded_columns;
        room.documents += files->parts[i].count;
        room.stretches += files->parts[i].blocks.count;
    }
    room.blocks = coded ? room.stretches : 0;
    return room;
}

int arrow_sequence_make(struct builder *builder, struct indexed_files *files, const struct arrow_want *want) {
    struct sequence sequence CLEANUP(sequence_release) = {0};
    const struct sequence_room room = room_of(files);
    if (room.blocks > BLOCK_MAX_COUNT)
        return builder_refuse(builder, -EFBIG, NULL, "found %" PRIu64 " blocks, wanted at most %llu",
                              room.blocks, BLOCK_MAX_COUNT);
    int err = sequence_init(builder, &sequence, want->dtype, &room);
    for (uint32_t i = 0; i < files->count && !err; i++) {
        struct adding adding = {.sequence = &sequence,
                                .part = &files->parts[i],
                                .token_bytes = dtype_bytes(want->dtype),
                                .first_block = sequence.block_count,
                                .file = i,
                                .in_blocks = room.blocks};
        err = add_file(builder, files, &adding, want);
        if (room.blocks)
            sequence_add_blocks(&sequence, &files->parts[i].blocks);
        index_rows_release(&files->parts[i]);
    }
    return err ? err : sequence_index(builder, &sequence, files->counts);
}
