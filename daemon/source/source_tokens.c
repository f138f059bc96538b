#include "daemon/source/source_tokens.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/scope.h"
#include "daemon/source/build/builder_files.h"
#include "daemon/source/build/builder_pad.h"
#include "daemon/source/tokens/documents.h"
#include "daemon/source/tokens/flat_documents.h"

static int add_file(struct builder *builder, const char *path, uint64_t token_bytes) {
    const struct dataset_config *config = builder->config;
    char size[64];
    snprintf(size, sizeof size, "%" PRIu64 ", the size of dtype %s", token_bytes, config->dtype);
    const struct builder_unit token = {"tokens", token_bytes, size};
    AUTO_SOURCE_FILE struct source_file file = SOURCE_FILE_NONE;
    uint64_t tokens;
    int err = builder_open_flat(builder, path, &token, &file, &tokens);
    if (err)
        return err;
    uint64_t windows = (tokens - 1) / config->length;
    if (windows == 0)
        return builder_refuse(builder, -EINVAL, path,
                              "found %" PRIu64 " tokens, wanted at least %" PRIu64
                              ", which is one window of length+1",
                              tokens, config->length + 1);
    return builder_add_file(builder, &file, config->header_bytes, windows);
}

static int open_windows(struct builder *builder, uint32_t dtype) {
    const struct dataset_config *config = builder->config;
    uint64_t token_bytes = dtype_bytes(dtype);
    uint64_t window, stride;
    uint32_t field;
    builder->key = "length";
    if (config->length == 0 || __builtin_add_overflow(config->length, 1u, &window) ||
        __builtin_mul_overflow(config->length, token_bytes, &stride))
        return builder_refuse(builder, -EINVAL, NULL, "found %" PRIu64 ", wanted windows of at most 1 GiB",
                              config->length);
    int err = builder_check_pads(builder, NULL, 0);
    if (!err)
        err = builder_add_field(builder, "tokens", dtype, 1, &window, &field);
    if (!err)
        err = builder_add_stream(builder, stride);
    if (err)
        return err;
    builder_add_extent(builder, field, 0);
    builder->key = "path";
    AUTO_PATHS struct path_list list = {0};
    err = builder_expand(builder, config->path, &list);
    for (size_t i = 0; i < list.count && !err; i++)
        err = add_file(builder, list.paths[i], token_bytes);
    return err;
}

static int open_tokens(struct builder *builder) {
    const struct dataset_config *config = builder->config;
    uint32_t dtype = dtype_parse(config->dtype);
    builder->key = "dtype";
    if (!dtype)
        return builder_refuse(builder, -EINVAL, NULL, "found \"%s\", wanted one of %s", config->dtype,
                              dtype_names);
    if (!config->offsets)
        return open_windows(builder, dtype);
    int err = documents_add_fields(builder, "tokens", dtype);
    return err ? err : flat_documents_open(builder, dtype);
}

const struct source_format source_tokens = {
    .name = "tokens",
    .summary = "flat files of tokens: windows, or documents by a file of offsets",
    .open = open_tokens,
};
