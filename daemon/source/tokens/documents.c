#include "daemon/source/tokens/documents.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_index.h"
#include "daemon/source/build/builder_pad.h"
#include "daemon/source/build/index_writer.h"
#include "daemon/source/tokens/boundaries.h"
#include "daemon/source/tokens/window_fields.h"

int document_files_init(struct builder *builder, const struct path_list *list, struct document_files *files) {
    if (list->count > DATASET_MAX_FILES)
        return builder_refuse(builder, -EMFILE, NULL, "found too many files, wanted at most %u in a dataset",
                              DATASET_MAX_FILES);
    files->files = calloc(list->count, sizeof *files->files);
    if (!files->files)
        return builder_out_of_memory(builder);
    files->count = (uint32_t)list->count;
    return 0;
}

void document_files_release(struct document_files *files) {
    for (uint32_t i = 0; i < files->count; i++)
        free(files->files[i].starts);
    free(files->files);
    *files = (struct document_files){0};
}

// ---- Fields ------------------------------------------------------------------------------------------------

static int add_windows(struct builder *builder, const char *name, uint32_t dtype) {
    int err = window_fields_add(builder, name, dtype, false);
    if (!err)
        err = builder_add_stream(builder, builder->config->pack * dtype_bytes(dtype));
    if (!err)
        builder_add_extent(builder, 0, 0);
    return err;
}

static int add_ragged(struct builder *builder, const char *name, uint32_t dtype) {
    struct dataset_layout *layout = builder->dataset->layout;
    struct dataset_column *column = &layout->columns[0];
    uint64_t length;
    uint32_t field = 0;
    *column = (struct dataset_column){.kind = COLUMN_EXTENTS};
    int err = builder_pad(builder, name, dtype, &length, &column->pad);
    if (!err)
        err = builder_check_pads(builder, &name, 1);
    if (!err)
        err = length ? builder_add_field(builder, name, dtype, 1, &length, &field)
                     : builder_add_ragged_field(builder, name, dtype);
    column->bytes = length * dtype_bytes(dtype);
    layout->column_count = 1;
    return err ? err : builder_add_stream(builder, 1);
}

int documents_add_fields(struct builder *builder, const char *name, uint32_t dtype) {
    return builder->config->pack ? add_windows(builder, name, dtype) : add_ragged(builder, name, dtype);
}

// ---- Files -------------------------------------------------------------------------------------------------

// A document of a ragged field is one sample; in windows, a token's position is an i32.
static int check_lengths(struct builder *builder, const struct documents *documents, const char *path,
                         uint64_t value_bytes) {
    bool packed = builder->config->pack;
    uint64_t most = packed ? INT32_MAX : BUILDER_MAX_SAMPLE_BYTES / value_bytes;
    for (uint64_t i = 0; i < documents->count; i++)
        if (documents->starts[i + 1] - documents->starts[i] > most)
            return builder_refuse(
                builder, -EFBIG, path,
                "found %" PRIu64 " values in document %" PRIu64 ", wanted at most %" PRIu64 "%s",
                documents->starts[i + 1] - documents->starts[i], i, most, packed ? "" : ", which is 1 GiB");
    return 0;
}

static int check_count(struct builder *builder, const struct document_files *files, const char *path) {
    uint64_t most = builder->config->pack ? INT32_MAX : INDEX_MAX_SAMPLES;
    if (files->documents <= most)
        return 0;
    return builder_refuse(builder, -EFBIG, path, "found %" PRIu64 " documents, wanted at most %" PRIu64,
                          files->documents, most);
}

int documents_check(struct builder *builder, const struct document_files *files,
                    const struct documents *documents, const char *path) {
    int err = check_count(builder, files, path);
    return err ? err : check_lengths(builder, documents, path, dtype_bytes(files->dtype));
}

int documents_add_file(struct builder *builder, struct document_files *files, uint32_t i,
                       struct source_file *file, uint64_t data_offset) {
    AUTO_SOURCE_FILE struct source_file taken = *file;
    *file = SOURCE_FILE_NONE;
    const struct documents *documents = &files->files[i];
    const uint64_t pack = builder->config->pack;
    uint64_t samples = documents->count;
    files->documents += documents->count;
    int err = documents_check(builder, files, documents, taken.path);
    if (err)
        return err;
    if (pack)
        samples = documents_windows(documents, pack);
    if (samples == 0)
        return builder_refuse(builder, -EINVAL, taken.path,
                              "found %" PRIu64 " tokens, wanted at least %" PRIu64
                              ", which is one window of pack+1",
                              documents->values, pack + 1);
    files->bytes += taken.size;
    return builder_add_file(builder, &taken, data_offset, samples);
}

// ---- The index ---------------------------------------------------------------------------------------------

static int place_windows(struct builder *builder, const struct document_files *files) {
    struct dataset_layout *layout = builder->dataset->layout;
    layout->index_bytes = sizeof(struct dataset_index) + files->count * sizeof(struct index_documents) +
                          files->documents * sizeof(uint64_t);
    return builder->config->cu_seqlens ? boundaries_place(builder, files) : 0;
}

static int write_windows(struct index_writer *writer, const struct document_files *files) {
    uint64_t first = 0, at = sizeof(struct dataset_index) + files->count * sizeof(struct index_documents);
    int err = 0;
    for (uint32_t i = 0; i < files->count && !err; i++) {
        const struct index_documents documents = {first, files->files[i].count, at};
        err = index_write(writer, &documents, sizeof documents);
        first += documents.count;
        at += documents.count * sizeof(uint64_t);
    }
    for (uint32_t i = 0; i < files->count && !err; i++)
        for (uint64_t k = 0; k < files->files[i].count && !err; k++)
            err = index_write(writer, &files->files[i].starts[k], sizeof(uint64_t));
    if (!err && writer->builder->config->cu_seqlens)
        err = boundaries_write(writer, files);
    return err;
}

static void place_extents(struct builder *builder, const struct document_files *files) {
    struct dataset_layout *layout = builder->dataset->layout;
    const struct index_field field = {.column = layout->columns[0]};
    builder_index_place(builder, files->documents, &field, 1, 0, 0);
    layout->streams[0].record_bytes = max_u64(1, files->bytes / files->documents); // on average
}

static int write_extents(struct index_writer *writer, const struct dataset_layout *layout,
                         const struct document_files *files) {
    uint64_t value_bytes = dtype_bytes(files->dtype);
    int err = 0;
    for (uint32_t i = 0; i < files->count && !err; i++) {
        const uint64_t *starts = files->files[i].starts;
        for (uint64_t k = 0; k < files->files[i].count && !err; k++) {
            const struct index_extent extent = {
                .offset = layout->files[i].data_offset + starts[k] * value_bytes,
                .file = i,
                .bytes = (uint32_t)((starts[k + 1] - starts[k]) * value_bytes)};
            err = index_write(writer, &extent, sizeof extent);
        }
    }
    return err;
}

int documents_index(struct builder *builder, const struct document_files *files) {
    struct dataset_layout *layout = builder->dataset->layout;
    bool packed = builder->config->pack;
    int err = packed ? place_windows(builder, files) : 0;
    if (err)
        return err;
    if (!packed)
        place_extents(builder, files);
    AUTO_FREE struct index_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return builder_out_of_memory(builder);
    err = index_writer_open(writer, builder, dataset_stream_samples(layout, &layout->streams[0]));
    if (!err)
        err = packed ? write_windows(writer, files) : write_extents(writer, layout, files);
    if (!err)
        err = index_writer_finish(writer);
    index_writer_close(writer);
    return err;
}
