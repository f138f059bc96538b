#include "daemon/source/build/builder_index.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sizes.h"
#include "daemon/dataset/index_memory.h"
#include "daemon/source/build/index_writer.h"

uint8_t *index_rows_grow(struct index_rows *rows, uint64_t count, size_t row_bytes) {
    if (rows->room - rows->count < count) {
        uint64_t room = max_u64(rows->count + count, rows->room * 2);
        uint8_t *grown = reallocarray(rows->rows, room, row_bytes);
        if (!grown)
            return NULL;
        rows->rows = grown;
        rows->room = room;
    }
    uint8_t *row = rows->rows + rows->count * row_bytes;
    rows->count += count;
    return row;
}

bool index_rows_add(struct index_rows *rows, const void *row, size_t row_bytes) {
    uint8_t *room = index_rows_grow(rows, 1, row_bytes);
    return room && memcpy(room, row, row_bytes);
}

int index_blocks_add(struct index_blocks *blocks, const struct index_block *block, uint32_t *number) {
    if (blocks->count == BLOCK_MAX_COUNT)
        return -EFBIG;
    if (blocks->count == blocks->room) {
        uint64_t room = blocks->room ? blocks->room * 2 : 64;
        struct index_block *grown = reallocarray(blocks->blocks, room, sizeof *grown);
        if (!grown)
            return -ENOMEM;
        blocks->blocks = grown;
        blocks->room = room;
    }
    *number = (uint32_t)blocks->count;
    blocks->blocks[blocks->count++] = *block;
    return 0;
}

void index_rows_release(struct index_rows *rows) {
    free(rows->rows);
    free(rows->blocks.blocks);
    *rows = (struct index_rows){0};
}

static uint64_t entry_bytes(const struct dataset_column *column) {
    bool lies_elsewhere =
        column->kind == COLUMN_EXTENTS || column->kind == COLUMN_TEXT || column->kind == COLUMN_BLOCKS;
    return lies_elsewhere ? sizeof(struct index_extent) : column->bytes;
}

// An extent in a block, as its column in the index has it: with the block's number among those of all files, or, if the
// column has only plain blocks, with its place in the file.
static struct index_extent place_extent(const struct index_rows *part, uint64_t first_block, bool coded,
                                        const uint8_t *entry) {
    struct index_extent extent;
    memcpy(&extent, entry, sizeof extent);
    if (coded) {
        extent.file += (uint32_t)first_block;
    } else {
        const struct index_block *block = &part->blocks.blocks[extent.file];
        extent.offset += block->stored[0].offset;
        extent.file = block->file;
    }
    return extent;
}

static int write_rows(struct index_writer *writer, const struct index_rows *part, uint64_t first_block,
                      size_t row_bytes, const struct index_field *field, bool coded) {
    const uint8_t *entry = part->count ? part->rows + field->row_offset : NULL;
    const bool in_blocks = part->blocks.count && field->column.kind == COLUMN_EXTENTS;
    const size_t bytes = entry_bytes(&field->column);
    int err = 0;
    for (uint64_t k = 0; k < part->count && !err; k++, entry += row_bytes) {
        if (!in_blocks) {
            err = index_write(writer, entry, bytes);
            continue;
        }
        const struct index_extent extent = place_extent(part, first_block, coded, entry);
        err = index_write(writer, &extent, sizeof extent);
    }
    return err;
}

static int write_column(struct index_writer *writer, const struct index_rows *parts, uint32_t part_count,
                        size_t row_bytes, const struct index_field *field, bool coded) {
    uint64_t first_block = 0;
    int err = 0;
    for (uint32_t i = 0; i < part_count && !err; i++) {
        err = write_rows(writer, &parts[i], first_block, row_bytes, field, coded);
        first_block += parts[i].blocks.count;
    }
    return err ? err : index_align(writer);
}

void builder_index_count_block(struct dataset_layout *layout, const struct index_block *block) {
    struct dataset_blocks *blocks = &layout->blocks;
    if (block->codec == BLOCK_PLAIN)
        return;
    blocks->coded++;
    blocks->stored_bytes += block_stored_bytes(block);
    blocks->decoded_bytes += block->decoded;
    blocks->largest = max_u64(blocks->largest, block->decoded);
    blocks->most_work = max_u64(blocks->most_work, block_work(block).bytes);
    blocks->most_room = max_u64(blocks->most_room, block_room(block));
}

static int write_blocks(struct index_writer *writer, struct dataset_layout *layout,
                        const struct index_rows *parts, uint32_t part_count) {
    int err = 0;
    if (!layout->blocks.count)
        return 0;
    for (uint32_t i = 0; i < part_count; i++)
        for (uint64_t k = 0; k < parts[i].blocks.count && !err; k++) {
            builder_index_count_block(layout, &parts[i].blocks.blocks[k]);
            err = index_write(writer, &parts[i].blocks.blocks[k], sizeof *parts[i].blocks.blocks);
        }
    return err;
}

void builder_index_place(struct builder *builder, uint64_t samples, const struct index_field *fields,
                         uint32_t field_count, uint64_t blocks, uint32_t coded) {
    struct dataset_layout *layout = builder->dataset->layout;
    layout->index_bytes = sizeof(struct dataset_index);
    layout->column_count = field_count;
    for (uint32_t i = 0; i < field_count; i++) {
        layout->columns[i] = fields[i].column;
        layout->columns[i].offset = layout->index_bytes;
        if (coded >> i & 1)
            layout->columns[i].kind = COLUMN_BLOCKS;
        layout->index_bytes += align_up(samples * entry_bytes(&fields[i].column), 8);
    }
    layout->blocks = (struct dataset_blocks){.offset = layout->index_bytes, .count = blocks};
    layout->index_bytes += blocks * sizeof(struct index_block);
    layout->text_offset = layout->index_bytes;
    layout->text_bytes = layout->incomplete_offset = 0;
}

static int write_text(struct index_writer *writer, const struct index_text *text) {
    int err = 0;
    for (uint64_t at = 0; at < text->bytes && !err; at += INDEX_BUFFER)
        err = index_write(writer, text->text + at, min_u64(text->bytes - at, INDEX_BUFFER));
    return err ? err : index_align(writer);
}

// What follows the columns: bits of incomplete samples, and text, if there are any. The text comes last, because its
// table is found from its end (base/path_text.h).
struct tail {
    const struct index_text *text, *marks;
};

static void place_tail(struct dataset_layout *layout, const struct tail *tail) {
    if (tail->marks) {
        layout->incomplete_offset = layout->index_bytes;
        layout->index_bytes += tail->marks->bytes;
    }
    layout->text_offset = layout->index_bytes;
    layout->text_bytes = tail->text ? align_up(tail->text->bytes, 8) : 0;
    layout->index_bytes += layout->text_bytes;
}

static int make(struct builder *builder, const struct index_rows *parts, uint32_t part_count,
                size_t row_bytes, const struct index_field *fields, uint32_t field_count,
                const struct tail *tail) {
    struct dataset_layout *layout = builder->dataset->layout;
    uint64_t samples = 0, blocks = 0;
    uint32_t coded = 0;
    for (uint32_t i = 0; i < part_count; i++) {
        samples += parts[i].count;
        blocks += parts[i].blocks.count;
        coded |= parts[i].coded_columns;
    }
    if (blocks > BLOCK_MAX_COUNT)
        return builder_refuse(builder, -EFBIG, NULL, "found %" PRIu64 " blocks, wanted at most %llu", blocks,
                              BLOCK_MAX_COUNT);
    if (samples > INDEX_MAX_SAMPLES)
        return builder_refuse(builder, -EFBIG, NULL, "found %" PRIu64 " samples, wanted at most %u", samples,
                              INDEX_MAX_SAMPLES);
    builder_index_place(builder, samples, fields, field_count, coded ? blocks : 0, coded);
    place_tail(layout, tail);
    AUTO_FREE struct index_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return builder_out_of_memory(builder);
    int err = index_writer_open(writer, builder, samples);
    for (uint32_t i = 0; i < field_count && !err; i++)
        err = write_column(writer, parts, part_count, row_bytes, &fields[i], coded >> i & 1);
    if (!err)
        err = write_blocks(writer, layout, parts, part_count);
    if (!err && tail->marks)
        err = write_text(writer, tail->marks);
    if (!err && tail->text)
        err = write_text(writer, tail->text);
    if (!err)
        err = index_writer_finish(writer);
    index_writer_close(writer);
    return err;
}

int builder_index(struct builder *builder, const struct index_rows *parts, uint32_t part_count,
                  size_t row_bytes, const struct index_field *fields, uint32_t field_count,
                  const struct index_text *text) {
    const struct tail tail = {.text = text};
    return make(builder, parts, part_count, row_bytes, fields, field_count, &tail);
}

int builder_index_marked(struct builder *builder, const struct index_rows *parts, uint32_t part_count,
                         size_t row_bytes, const struct index_field *fields, uint32_t field_count,
                         const struct index_text *text, const uint64_t *incomplete) {
    uint64_t samples = 0;
    for (uint32_t i = 0; i < part_count; i++)
        samples += parts[i].count;
    const struct index_text marks = {(const char *)incomplete, builder_index_mark_bytes(samples)};
    const struct tail tail = {.text = text, .marks = incomplete ? &marks : NULL};
    return make(builder, parts, part_count, row_bytes, fields, field_count, &tail);
}

int builder_index_map(struct builder *builder) {
    struct dataset *dataset = builder->dataset;
    if (!dataset->index && dataset->base)
        dataset->index = dataset->base->index;
    if (dataset->index)
        return 0;
    // Private: kernels before 6.7 refuse a shared mapping of memory that is sealed against writing.
    void *map = mmap(NULL, dataset->layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    if (map == MAP_FAILED)
        return builder_refuse(builder, -errno, NULL, "cannot map the index: %m");
    dataset->index = map;
    return 0;
}

void builder_index_unmap(struct builder *builder) {
    struct dataset *dataset = builder->dataset;
    if (dataset->index && !(dataset->base && dataset->index == dataset->base->index))
        munmap((void *)dataset->index, dataset->layout->index_bytes);
    dataset->index = NULL;
}

void builder_index_discard(struct builder *builder) {
    builder_index_unmap(builder);
    index_memory_release(builder->dataset->index_fd);
    close_fd(&builder->dataset->index_fd);
}
