#include "daemon/source/source_records.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/scope.h"
#include "daemon/source/build/builder_files.h"
#include "daemon/source/build/builder_pad.h"
#include "daemon/source/build/field_words.h"
#include "daemon/source/tokens/documents.h"
#include "daemon/source/tokens/flat_documents.h"

struct placed_field {
    uint32_t field;
    uint64_t offset;
    uint64_t end;
};

struct field_text {
    uint32_t dtype;
    uint32_t dimensions;
    uint64_t shape[RING_MAX_DIMS];
    uint64_t offset;
};

static bool take(const char **at, char letter) {
    *at = field_skip_blanks(*at);
    if (**at != letter)
        return false;
    *at = field_skip_blanks(*at + 1);
    return true;
}

static bool take_dtype(const char **at, uint32_t *dtype) {
    char name[16];
    size_t length = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789");
    if (length >= sizeof name)
        return false;
    memcpy(name, *at, length);
    name[length] = '\0';
    *at += length;
    *dtype = dtype_parse(name);
    return *dtype != 0;
}

// "DTYPE @ OFFSET" or "DTYPE[N,...] @ OFFSET".
static bool parse_field(const char *at, struct field_text *field) {
    *field = (struct field_text){0};
    if (!take_dtype(&at, &field->dtype))
        return false;
    if (take(&at, '[')) {
        do {
            if (field->dimensions == RING_MAX_DIMS ||
                !field_take_number(&at, &field->shape[field->dimensions]))
                return false;
            field->dimensions++;
        } while (take(&at, ','));
        if (!take(&at, ']'))
            return false;
    }
    return take(&at, '@') && field_take_number(&at, &field->offset) && *at == '\0';
}

static int refuse_field(struct builder *builder, const char *value) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(value, " \t[@"), value);
    const char *nearest = dtype_parse(name) ? NULL : dtype_nearest(name);
    if (nearest)
        return builder_refuse(builder, -EINVAL, NULL, "unknown dtype \"%s\"; perhaps you mean \"%s\"", name,
                              nearest);
    return builder_refuse(builder, -EINVAL, NULL,
                          "found \"%s\", wanted DTYPE @ OFFSET or DTYPE[N,...] @ OFFSET with at most %u"
                          " dimensions and a DTYPE of %s",
                          value, RING_MAX_DIMS, dtype_names);
}

static int add_field(struct builder *builder, const struct config_field *config,
                     struct placed_field *placed) {
    struct field_text field;
    builder->field = config;
    if (!parse_field(config->value, &field))
        return refuse_field(builder, config->value);
    int err =
        builder_add_field(builder, config->name, field.dtype, field.dimensions, field.shape, &placed->field);
    if (err)
        return err;
    uint64_t bytes = builder->dataset->layout->fields[placed->field].sample_bytes;
    placed->offset = field.offset;
    if (__builtin_add_overflow(field.offset, bytes, &placed->end) ||
        placed->end > builder->config->record_bytes)
        return builder_refuse(builder, -EINVAL, NULL,
                              "found %" PRIu64 " bytes at offset %" PRIu64
                              ", wanted them to end within record_bytes = %" PRIu64,
                              bytes, field.offset, builder->config->record_bytes);
    return 0;
}

static int by_offset(const void *left, const void *right) {
    const struct placed_field *a = left, *b = right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int add_extents(struct builder *builder, struct placed_field *placed, size_t count) {
    const struct dataset_config *config = builder->config;
    qsort(placed, count, sizeof *placed, by_offset);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && placed[i].offset < placed[i - 1].end) {
            builder->field = &config->fields[placed[i].field];
            return builder_refuse(builder, -EINVAL, NULL,
                                  "found offset %" PRIu64 ", wanted %" PRIu64 " or more, where field.%s ends,"
                                  " because fields may not overlap",
                                  placed[i].offset, placed[i - 1].end,
                                  config->fields[placed[i - 1].field].name);
        }
        builder_add_extent(builder, placed[i].field, placed[i].offset);
    }
    builder->field = NULL;
    return 0;
}

static int add_file(struct builder *builder, const char *path) {
    const struct dataset_config *config = builder->config;
    char size[64];
    snprintf(size, sizeof size, "record_bytes = %" PRIu64, config->record_bytes);
    const struct builder_unit record = {"records", config->record_bytes, size};
    AUTO_SOURCE_FILE struct source_file file = SOURCE_FILE_NONE;
    uint64_t records;
    int err = builder_open_flat(builder, path, &record, &file, &records);
    return err ? err : builder_add_file(builder, &file, config->header_bytes, records);
}

// With offsets: the one field, "DTYPE".
static int describe_ragged(struct builder *builder) {
    const struct dataset_config *config = builder->config;
    builder->field = &config->fields[config->field_count - 1];
    if (config->field_count > 1)
        return builder_refuse(builder, -EINVAL, NULL,
                              "found a second field, wanted one, because offsets is set");
    uint32_t dtype = dtype_parse(builder->field->value);
    const char *nearest = dtype ? NULL : dtype_nearest(builder->field->value);
    if (!dtype)
        return builder_refuse(
            builder, -EINVAL, NULL,
            "found \"%s\", wanted the type of a value, because offsets is set: one of %s%s%s",
            builder->field->value, dtype_names, nearest ? "; perhaps you mean " : "", nearest ? nearest : "");
    if (config->pack && (dtype < DTYPE_U8 || dtype > DTYPE_I64))
        return builder_refuse(builder, -EINVAL, NULL,
                              "found \"%s\", wanted integers, which pack can lay end to end",
                              builder->field->value);
    int err = documents_add_fields(builder, builder->field->name, dtype);
    builder->field = NULL;
    return err;
}

static int describe_records(struct builder *builder) {
    const struct dataset_config *config = builder->config;
    struct placed_field placed[RING_MAX_FIELDS];
    if (config->offsets)
        return describe_ragged(builder);
    int err = builder_check_pads(builder, NULL, 0);
    if (!err)
        err = builder_add_stream(builder, config->record_bytes);
    for (size_t i = 0; i < config->field_count && !err; i++)
        err = add_field(builder, &config->fields[i], &placed[i]);
    return err ? err : add_extents(builder, placed, config->field_count);
}

static int open_records(struct builder *builder) {
    AUTO_PATHS struct path_list list = {0};
    if (builder->config->offsets)
        return flat_documents_open(builder, dtype_parse(builder->config->fields[0].value));
    int err = builder_expand(builder, builder->config->path, &list);
    for (size_t i = 0; i < list.count && !err; i++)
        err = add_file(builder, list.paths[i]);
    return err;
}

const struct source_format source_records = {
    .name = "records",
    .summary = "records of fixed size, fields at byte offsets; or of any size, by a file of offsets",
    .describe = describe_records,
    .open = open_records,
};
