#include "daemon/source/tokens/flat_documents.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "daemon/source/tokens/documents.h"
#include "daemon/source/tokens/offsets.h"

static int expand(struct builder *builder, const char *key, const char *text, struct path_list *list) {
    builder->key = key;
    return builder_expand(builder, text, list);
}

static int add_file(struct builder *builder, const char *path, const char *offsets,
                    struct document_files *files, uint32_t i) {
    AUTO_SOURCE_FILE struct source_file file = SOURCE_FILE_NONE;
    uint64_t value_bytes = dtype_bytes(files->dtype), values = 0, first = 0;
    char size[64];
    snprintf(size, sizeof size, "%" PRIu64 ", the size of %s", value_bytes, dtype_name(files->dtype));
    const struct builder_unit value = {"values", value_bytes, size};
    builder->key = "path";
    int err = builder_open_flat(builder, path, &value, &file, &values);
    builder->key = "offsets";
    if (!err)
        err = offsets_read(builder, offsets, values, &files->files[i], &first);
    builder->key = "path";
    return err ? err
               : documents_add_file(builder, files, i, &file,
                                    builder->config->header_bytes + first * value_bytes);
}

int flat_documents_open(struct builder *builder, uint32_t dtype) {
    AUTO_PATHS struct path_list data = {0};
    AUTO_PATHS struct path_list offsets = {0};
    struct document_files files CLEANUP(document_files_release) = {.dtype = dtype};
    int err = expand(builder, "path", builder->config->path, &data);
    if (!err)
        err = expand(builder, "offsets", builder->config->offsets, &offsets);
    if (!err && data.count != offsets.count)
        err =
            builder_refuse(builder, -EINVAL, NULL, "found %zu file%s, wanted %zu: one for each file of path",
                           offsets.count, offsets.count == 1 ? "" : "s", data.count);
    if (!err)
        err = document_files_init(builder, &data, &files);
    for (uint32_t i = 0; i < files.count && !err; i++)
        err = add_file(builder, data.paths[i], offsets.paths[i], &files, i);
    return err ? err : documents_index(builder, &files);
}
