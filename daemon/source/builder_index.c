#include "daemon/source/builder_index.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/sizes.h"

#define BUFFER_BYTES (64u << 10)

// The index is written from front to back, and hashed on the way.
struct writer {
    struct builder *builder;
    XXH3_state_t *hash;
    uint64_t written;
    size_t used;
    uint8_t buffer[BUFFER_BYTES];
};

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

static int flush(struct writer *writer) {
    XXH3_64bits_update(writer->hash, writer->buffer, writer->used);
    ssize_t wrote =
        pwrite(writer->builder->dataset->index_fd, writer->buffer, writer->used, (off_t)writer->written);
    if (wrote != (ssize_t)writer->used) {
        int err = wrote < 0 ? -errno : -ENOMEM;
        return builder_refuse(writer->builder, err, NULL, "cannot keep the index in memory: %s",
                              strerror(-err));
    }
    writer->written += writer->used;
    writer->used = 0;
    return 0;
}

static inline int write_some(struct writer *writer, const void *bytes, size_t count) {
    int err = writer->used + count > sizeof writer->buffer ? flush(writer) : 0;
    if (err)
        return err;
    memcpy(writer->buffer + writer->used, bytes, count);
    writer->used += count;
    return 0;
}

static int write_column(struct writer *writer, const struct index_rows *parts, uint32_t part_count,
                        size_t row_bytes, const struct index_field *field) {
    bool extents = field->column.kind == COLUMN_EXTENTS;
    size_t bytes = extents ? sizeof(struct index_extent) : field->column.bytes;
    int err = 0;
    for (uint32_t i = 0; i < part_count && !err; i++) {
        const uint8_t *entry = parts[i].rows + field->row_offset;
        for (uint64_t k = 0; k < parts[i].count && !err; k++, entry += row_bytes)
            err = write_some(writer, entry, bytes);
    }
    static const uint8_t zeros[8];
    uint64_t end = writer->written + writer->used;
    return err ? err : write_some(writer, zeros, align_up(end, 8) - end);
}

static uint64_t column_bytes(const struct dataset_column *column, uint64_t samples) {
    uint64_t bytes = column->kind == COLUMN_EXTENTS ? sizeof(struct index_extent) : column->bytes;
    return align_up(samples * bytes, 8);
}

// Sets the columns, and where they lie.
static void place_columns(struct dataset_layout *layout, uint64_t samples, const struct index_field *fields,
                          uint32_t field_count) {
    layout->index_bytes = sizeof(struct dataset_index);
    layout->column_count = field_count;
    for (uint32_t i = 0; i < field_count; i++) {
        layout->columns[i] = fields[i].column;
        layout->columns[i].offset = layout->index_bytes;
        layout->index_bytes += column_bytes(&fields[i].column, samples);
    }
}

static int write_index(struct writer *writer, const struct index_rows *parts, uint32_t part_count,
                       uint64_t samples, size_t row_bytes, const struct index_field *fields) {
    struct dataset *dataset = writer->builder->dataset;
    const struct dataset_index head = {dataset->layout->index_bytes, samples};
    int err = write_some(writer, &head, sizeof head);
    for (uint32_t i = 0; i < dataset->layout->column_count && !err; i++)
        err = write_column(writer, parts, part_count, row_bytes, &fields[i]);
    if (!err)
        err = flush(writer);
    if (!err &&
        fcntl(dataset->index_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        err = builder_refuse(writer->builder, -errno, NULL, "cannot seal the memory of the index: %m");
    return err;
}

int builder_index(struct builder *builder, const struct index_rows *parts, uint32_t part_count,
                  size_t row_bytes, const struct index_field *fields, uint32_t field_count) {
    struct dataset *dataset = builder->dataset;
    uint64_t samples = 0;
    for (uint32_t i = 0; i < part_count; i++)
        samples += parts[i].count;
    if (samples > INDEX_MAX_SAMPLES)
        return builder_refuse(builder, -EFBIG, NULL, "found %" PRIu64 " samples, wanted at most %u", samples,
                              INDEX_MAX_SAMPLES);
    place_columns(dataset->layout, samples, fields, field_count);
    dataset->index_fd = memfd_create("feedd-index", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (dataset->index_fd < 0)
        return builder_refuse(builder, -errno, NULL, "cannot allocate memory for the index: %m");
    AUTO_FREE struct writer *writer = calloc(1, sizeof *writer);
    XXH3_state_t *hash = writer ? XXH3_createState() : NULL;
    if (!hash)
        return builder_out_of_memory(builder);
    writer->builder = builder;
    writer->hash = hash;
    XXH3_64bits_reset(hash);
    int err = write_index(writer, parts, part_count, samples, row_bytes, fields);
    dataset->layout->index_hash = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return err;
}
