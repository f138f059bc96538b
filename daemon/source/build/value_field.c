#include "daemon/source/build/value_field.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_pad.h"
#include "daemon/source/build/field_words.h"
#include "daemon/source/build/text_value.h"

#define BLANKS " \t"

static int refuse_type(struct builder *builder, const char *type) {
    const char *nearest = field_nearest_type(type);
    if (nearest)
        return builder_refuse(builder, -EINVAL, NULL, "unknown type \"%s\"; perhaps you mean \"%s\"", type,
                              nearest);
    return builder_refuse(
        builder, -EINVAL, NULL,
        "found type \"%s\", wanted bytes, length, or the type of a number: u8 to i64, f32 or"
        " f64",
        type);
}

static int parse_type(struct builder *builder, const char *type, struct value_field *field) {
    bool bytes = strcmp(type, "bytes") == 0, length = strcmp(type, "length") == 0;
    field->kind = bytes ? VALUE_BYTES : length ? VALUE_LENGTH : VALUE_NUMBER;
    field->dtype = bytes ? DTYPE_U8 : length ? DTYPE_I64 : dtype_parse(type);
    return text_value_takes(field->dtype) ? 0 : refuse_type(builder, type);
}

int value_field_parse(struct builder *builder, const char *form, struct value_field *field,
                      const char **source) {
    const char *value = builder->field->value;
    char type[16];
    size_t length = strcspn(value, BLANKS "@");
    const char *rest = value + length + strspn(value + length, BLANKS);
    snprintf(type, sizeof type, "%.*s", (int)min_u64(length, sizeof type - 1), value);
    field->name = *source = builder->field->name;
    if (*rest == '@')
        *source = rest + 1 + strspn(rest + 1, BLANKS);
    if ((*rest && *rest != '@') || !**source)
        return builder_refuse(builder, -EINVAL, NULL, "found \"%s\", wanted %s", value, form);
    return parse_type(builder, type, field);
}

int value_field_place(struct builder *builder, bool add, uint32_t number, enum column_kind bytes,
                      size_t *row_bytes, struct value_field *field) {
    struct dataset_column *column = &field->index.column;
    const bool has_bytes = field->kind == VALUE_BYTES;
    uint64_t length = 0;
    uint32_t index;
    int err = has_bytes ? builder_pad(builder, field->name, field->dtype, &length, &column->pad) : 0;
    if (err)
        return err;
    column->kind = has_bytes ? bytes : COLUMN_VALUES;
    column->field = number;
    column->bytes = has_bytes ? length : dtype_bytes(field->dtype);
    field->index.row_offset = (uint32_t)*row_bytes;
    *row_bytes += has_bytes ? sizeof(struct index_extent) : sizeof(uint64_t);
    if (add && has_bytes && !length)
        return builder_add_ragged_field(builder, field->name, field->dtype);
    return add ? builder_add_field(builder, field->name, field->dtype, has_bytes, &length, &index) : 0;
}
