#include "daemon/source/source_megatron.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/index_writer.h"
#include "daemon/source/megatron_index.h"

struct pairs {
    struct megatron_index *indices;
    uint32_t count;
    uint32_t dtype;
    uint64_t documents;
};

static void release(struct pairs *pairs) {
    for (uint32_t i = 0; i < pairs->count; i++)
        megatron_index_release(&pairs->indices[i]);
    free(pairs->indices);
}

static int add_fields(struct builder *builder, uint32_t dtype) {
    uint64_t window = builder->config->pack + 1;
    uint32_t field;
    int err = builder_add_field(builder, "tokens", dtype, 1, &window, &field);
    if (!err)
        err = builder_add_stream(builder, builder->config->pack * dtype_bytes(dtype));
    if (err)
        return err;
    builder_add_extent(builder, field, 0);
    static const char *const names[] = {"position", "document"};
    struct dataset_layout *layout = builder->dataset->layout;
    for (uint32_t i = 0; i < COUNT_OF(names) && !err; i++) {
        err = builder_add_field(builder, names[i], DTYPE_I32, 1, &window, &field);
        layout->columns[i] = (struct dataset_column){.field = field,
                                                     .kind = COLUMN_POSITIONS + i,
                                                     .offset = sizeof(struct dataset_index),
                                                     .bytes = window * sizeof(int32_t)};
    }
    layout->column_count = COUNT_OF(names);
    return err;
}

// "x.idx" and "x.bin".
static char *data_path(const char *path) {
    size_t length = strlen(path);
    char *data = NULL;
    if (length < 5 || strcmp(path + length - 4, ".idx") != 0 ||
        asprintf(&data, "%.*s.bin", (int)length - 4, path) < 0)
        return NULL;
    return data;
}

static int add_data(struct builder *builder, const char *path, const struct megatron_index *index) {
    AUTO_SOURCE_FILE struct source_file file = SOURCE_FILE_NONE;
    uint64_t windows = index->tokens ? (index->tokens - 1) / builder->config->pack : 0;
    uint64_t bytes = index->tokens * dtype_bytes(index->dtype);
    int err = builder_open(builder, path, &file);
    if (err)
        return err;
    if (file.size != bytes)
        return builder_refuse(builder, -EINVAL, path,
                              "found %" PRIu64 " bytes, wanted %" PRIu64 ", which its index says", file.size,
                              bytes);
    if (windows == 0)
        return builder_refuse(builder, -EINVAL, path,
                              "found %" PRIu64 " tokens, wanted at least %" PRIu64
                              ", which is one window of pack+1",
                              index->tokens, builder->config->pack + 1);
    return builder_add_file(builder, &file, 0, windows);
}

static int add_pair(struct builder *builder, const char *path, struct pairs *pairs) {
    struct megatron_index *index = &pairs->indices[pairs->count++];
    AUTO_FREE char *data = data_path(path);
    if (!data)
        return builder_refuse(builder, -EINVAL, path, "found another name, wanted one that ends with .idx");
    int err = megatron_index_read(builder, path, index);
    if (!err && !pairs->dtype) {
        pairs->dtype = index->dtype;
        err = add_fields(builder, index->dtype);
    }
    if (err)
        return err;
    if (index->dtype != pairs->dtype)
        return builder_refuse(builder, -EINVAL, path, "found tokens of %s, wanted %s as in the first file",
                              dtype_name(index->dtype), dtype_name(pairs->dtype));
    pairs->documents += index->documents;
    if (pairs->documents > INT32_MAX)
        return builder_refuse(builder, -EFBIG, path, "found %" PRIu64 " documents, wanted fewer than 2^31",
                              pairs->documents);
    return add_data(builder, data, index);
}

static int write_documents(struct index_writer *writer, const struct pairs *pairs) {
    uint64_t first = 0, at = sizeof(struct dataset_index) + pairs->count * sizeof(struct index_documents);
    int err = 0;
    for (uint32_t i = 0; i < pairs->count && !err; i++) {
        const struct index_documents documents = {first, pairs->indices[i].documents, at};
        err = index_write(writer, &documents, sizeof documents);
        first += documents.count;
        at += documents.count * sizeof(uint64_t);
    }
    for (uint32_t i = 0; i < pairs->count && !err; i++)
        for (uint64_t k = 0; k < pairs->indices[i].documents && !err; k++)
            err = index_write(writer, &pairs->indices[i].starts[k], sizeof(uint64_t));
    return err;
}

static int make_index(struct builder *builder, const struct pairs *pairs) {
    struct dataset_layout *layout = builder->dataset->layout;
    layout->index_bytes = sizeof(struct dataset_index) + pairs->count * sizeof(struct index_documents) +
                          pairs->documents * sizeof(uint64_t);
    AUTO_FREE struct index_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return builder_out_of_memory(builder);
    int err = index_writer_open(writer, builder, dataset_stream_samples(layout, &layout->streams[0]));
    if (!err)
        err = write_documents(writer, pairs);
    if (!err)
        err = index_writer_finish(writer);
    index_writer_close(writer);
    return err;
}

static int open_megatron(struct builder *builder) {
    AUTO_PATHS struct path_list list = {0};
    struct pairs pairs CLEANUP(release) = {0};
    builder->key = "path";
    int err = builder_expand(builder, builder->config->path, &list);
    if (err)
        return err;
    pairs.indices = calloc(list.count, sizeof *pairs.indices);
    if (!pairs.indices)
        return builder_out_of_memory(builder);
    for (size_t i = 0; i < list.count && !err; i++)
        err = add_pair(builder, list.paths[i], &pairs);
    return err ? err : make_index(builder, &pairs);
}

const struct source_format source_megatron = {
    .name = "megatron",
    .summary = "tokenised documents in .idx and .bin pairs, packed into windows",
    .open = open_megatron,
};
