#include "daemon/source/builder_index.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/source/index_writer.h"

bool index_rows_add(struct index_rows *rows, const void *row, size_t row_bytes) {
    if (rows->count == rows->room) {
        uint64_t room = rows->room ? rows->room * 2 : 64;
        uint8_t *grown = reallocarray(rows->rows, room, row_bytes);
        if (!grown)
            return false;
        rows->rows = grown;
        rows->room = room;
    }
    memcpy(rows->rows + rows->count++ * row_bytes, row, row_bytes);
    return true;
}

void index_rows_release(struct index_rows *rows) {
    free(rows->rows);
    *rows = (struct index_rows){0};
}

static uint64_t entry_bytes(const struct dataset_column *column) {
    return column->kind == COLUMN_EXTENTS ? sizeof(struct index_extent) : column->bytes;
}

static int write_column(struct index_writer *writer, const struct index_rows *parts, uint32_t part_count,
                        size_t row_bytes, const struct index_field *field) {
    size_t bytes = entry_bytes(&field->column);
    int err = 0;
    for (uint32_t i = 0; i < part_count && !err; i++) {
        const uint8_t *entry = parts[i].rows + field->row_offset;
        for (uint64_t k = 0; k < parts[i].count && !err; k++, entry += row_bytes)
            err = index_write(writer, entry, bytes);
    }
    return err ? err : index_align(writer);
}

void builder_index_place(struct builder *builder, uint64_t samples, const struct index_field *fields,
                         uint32_t field_count) {
    struct dataset_layout *layout = builder->dataset->layout;
    layout->index_bytes = sizeof(struct dataset_index);
    layout->column_count = field_count;
    for (uint32_t i = 0; i < field_count; i++) {
        layout->columns[i] = fields[i].column;
        layout->columns[i].offset = layout->index_bytes;
        layout->index_bytes += align_up(samples * entry_bytes(&fields[i].column), 8);
    }
}

int builder_index(struct builder *builder, const struct index_rows *parts, uint32_t part_count,
                  size_t row_bytes, const struct index_field *fields, uint32_t field_count) {
    uint64_t samples = 0;
    for (uint32_t i = 0; i < part_count; i++)
        samples += parts[i].count;
    if (samples > INDEX_MAX_SAMPLES)
        return builder_refuse(builder, -EFBIG, NULL, "found %" PRIu64 " samples, wanted at most %u", samples,
                              INDEX_MAX_SAMPLES);
    builder_index_place(builder, samples, fields, field_count);
    AUTO_FREE struct index_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return builder_out_of_memory(builder);
    int err = index_writer_open(writer, builder, samples);
    for (uint32_t i = 0; i < field_count && !err; i++)
        err = write_column(writer, parts, part_count, row_bytes, &fields[i]);
    if (!err)
        err = index_writer_finish(writer);
    index_writer_close(writer);
    return err;
}
