#include "daemon/source/source_megatron.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "daemon/source/tokens/megatron_index.h"

// "x.idx" and "x.bin".
static char *data_path(const char *path) {
    size_t length = strlen(path);
    char *data = NULL;
    if (length < 5 || strcmp(path + length - 4, ".idx") != 0 ||
        asprintf(&data, "%.*s.bin", (int)length - 4, path) < 0)
        return NULL;
    return data;
}

static int add_data(struct builder *builder, const char *path, struct document_files *files, uint32_t i) {
    AUTO_SOURCE_FILE struct source_file file = SOURCE_FILE_NONE;
    uint64_t bytes = files->files[i].values * dtype_bytes(files->dtype);
    int err = builder_open(builder, path, &file);
    if (err)
        return err;
    if (file.size != bytes)
        return builder_refuse(builder, -EINVAL, path,
                              "found %" PRIu64 " bytes, wanted %" PRIu64 ", which its index says", file.size,
                              bytes);
    return documents_add_file(builder, files, i, &file, 0);
}

static int add_pair(struct builder *builder, const char *path, struct document_files *files, uint32_t i) {
    AUTO_FREE char *data = data_path(path);
    uint32_t dtype = 0;
    if (!data)
        return builder_refuse(builder, -EINVAL, path, "found another name, wanted one that ends with .idx");
    int err = megatron_index_read(builder, path, &files->files[i], &dtype);
    if (!err && i == 0) {
        files->dtype = dtype;
        err = documents_add_fields(builder, "tokens", dtype);
    }
    if (err)
        return err;
    if (dtype != files->dtype)
        return builder_refuse(builder, -EINVAL, path, "found tokens of %s, wanted %s as in the first file",
                              dtype_name(dtype), dtype_name(files->dtype));
    return add_data(builder, data, files, i);
}

static int open_megatron(struct builder *builder) {
    AUTO_PATHS struct path_list list = {0};
    struct document_files files CLEANUP(document_files_release) = {0};
    builder->key = "path";
    int err = builder_expand(builder, builder->config->path, &list);
    if (!err)
        err = document_files_init(builder, &list, &files);
    for (uint32_t i = 0; i < files.count && !err; i++)
        err = add_pair(builder, list.paths[i], &files, i);
    return err ? err : documents_index(builder, &files);
}

const struct source_format source_megatron = {
    .name = "megatron",
    .summary = "tokenised documents in .idx and .bin pairs, each a sample or packed into windows",
    .open = open_megatron,
};
