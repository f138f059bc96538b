#include "daemon/source/tar/tar_fields.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_pad.h"
#include "daemon/source/build/text_value.h"

#define BLANKS " \t"

static int refuse_type(struct builder *builder, const char *type) {
    const char *nearest = dtype_parse(type) ? NULL : dtype_nearest(type);
    if (nearest)
        return builder_refuse(builder, -EINVAL, NULL, "unknown type \"%s\"; perhaps you mean \"%s\"", type,
                              nearest);
    return builder_refuse(builder, -EINVAL, NULL,
                          "found type \"%s\", wanted bytes, length, or the type of a number written as text:"
                          " u8 to i64, f32 or f64",
                          type);
}

// "TYPE" or "TYPE @ EXTENSION|EXTENSION".
static int parse_value(struct builder *builder, const char *value, struct tar_field *field) {
    char type[16];
    size_t length = strcspn(value, BLANKS "@");
    const char *rest = value + length + strspn(value + length, BLANKS);
    snprintf(type, sizeof type, "%.*s", (int)min_u64(length, sizeof type - 1), value);
    field->extensions = field->name;
    if (*rest == '@') {
        rest++;
        field->extensions = rest + strspn(rest, BLANKS);
    } else if (*rest) {
        return builder_refuse(builder, -EINVAL, NULL, "found \"%s\", wanted TYPE @ EXTENSION|EXTENSION",
                              value);
    }
    const char *extensions = field->extensions;
    if (*extensions == '\0' || strpbrk(extensions, BLANKS "/@") || strstr(extensions, "||") ||
        *extensions == '|' || extensions[strlen(extensions) - 1] == '|' || *extensions == '.' ||
        strstr(extensions, "|."))
        return builder_refuse(builder, -EINVAL, NULL,
                              "found \"%s\", wanted extensions of members after the @, separated by | and"
                              " without a dot in front: jpg|jpeg",
                              extensions);
    if (strcmp(type, "bytes") == 0) {
        field->kind = TAR_BYTES;
        field->dtype = DTYPE_U8;
    } else if (strcmp(type, "length") == 0) {
        field->kind = TAR_LENGTH;
        field->dtype = DTYPE_I64;
    } else {
        field->kind = TAR_NUMBER;
        field->dtype = dtype_parse(type);
        if (!text_value_takes(field->dtype))
            return refuse_type(builder, type);
    }
    return 0;
}

static int parse_field(struct builder *builder, bool add, struct tar_fields *fields,
                       struct tar_field *field) {
    struct dataset_column *column = &field->index.column;
    uint64_t length = 0;
    int err = parse_value(builder, builder->field->value, field);
    bool bytes = field->kind == TAR_BYTES;
    if (!err && bytes)
        err = builder_pad(builder, field->name, field->dtype, &length, &column->pad);
    if (err)
        return err;
    column->kind = bytes ? COLUMN_EXTENTS : COLUMN_VALUES;
    column->field = fields->count;
    column->bytes = bytes ? length : dtype_bytes(field->dtype);
    field->index.row_offset = (uint32_t)fields->row_bytes;
    fields->row_bytes += bytes ? sizeof(struct index_extent) : sizeof(uint64_t);
    uint32_t index;
    if (add && bytes && !length)
        return builder_add_ragged_field(builder, field->name, field->dtype);
    return add ? builder_add_field(builder, field->name, field->dtype, bytes, &length, &index) : 0;
}

int tar_fields_parse(struct builder *builder, bool add, struct tar_fields *fields) {
    const struct dataset_config *config = builder->config;
    const char *ragged[RING_MAX_FIELDS];
    uint32_t ragged_count = 0;
    *fields = (struct tar_fields){0};
    for (size_t i = 0; i < config->field_count; i++) {
        builder->field = &config->fields[i];
        if (fields->count == RING_MAX_FIELDS)
            return builder_refuse(builder, -EINVAL, NULL, "found too many fields, wanted at most %u",
                                  RING_MAX_FIELDS);
        struct tar_field *field = &fields->fields[fields->count];
        field->name = config->fields[i].name;
        int err = parse_field(builder, add, fields, field);
        if (err)
            return err;
        if (field->kind == TAR_BYTES)
            ragged[ragged_count++] = field->name;
        fields->count++;
    }
    builder->field = NULL;
    return builder_check_pads(builder, ragged, ragged_count);
}

bool tar_field_takes(const struct tar_field *field, const char *extension) {
    size_t length = strlen(extension);
    for (const char *at = field->extensions; *at;) {
        size_t bytes = strcspn(at, "|");
        if (bytes == length && strncasecmp(at, extension, length) == 0)
            return true;
        at += bytes + (at[bytes] == '|');
    }
    return false;
}
