#include "daemon/source/arrow/arrow_column.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/scope.h"

#define TEXT 128

static bool is_list(const struct arrow_field *field) {
    return field->kind == ARROW_LIST || field->kind == ARROW_LARGE_LIST;
}

static bool is_binary(const struct arrow_field *field) {
    return field->kind == ARROW_BINARY || field->kind == ARROW_LARGE_BINARY;
}

static uint32_t offset_bytes(const struct arrow_field *field) {
    if (field->kind == ARROW_LIST || field->kind == ARROW_BINARY)
        return 4;
    return field->kind == ARROW_LARGE_LIST || field->kind == ARROW_LARGE_BINARY ? 8 : 0;
}

// The values of a list. A hostile schema may have a list of nothing.
static uint32_t child_of(const struct arrow_schema *schema, uint32_t field) {
    return field + 1 < schema->count && schema->fields[field + 1].parent == field ? field + 1
                                                                                  : ARROW_NO_FIELD;
}

// ---- By path -------------------------------------------------------------------------------------------------

// Fields come parents first, so what is inside of one follows it.
static bool is_inside(const struct arrow_schema *schema, uint32_t index, uint32_t parent) {
    return index < schema->count && (parent == ARROW_NO_FIELD || (schema->fields[index].parent >= parent &&
                                                                  schema->fields[index].parent < index));
}

// Follows "image.bytes" from `parent` down. A name may have dots itself, so that all of the path is tried first.
static uint32_t find_path(const struct arrow_schema *schema, uint32_t parent, const char *path) {
    uint32_t first = parent == ARROW_NO_FIELD ? 0 : parent + 1;
    for (uint32_t i = first; is_inside(schema, i, parent); i++)
        if (schema->fields[i].parent == parent && strcmp(schema->fields[i].name, path) == 0)
            return i;
    for (uint32_t i = first; is_inside(schema, i, parent); i++) {
        const struct arrow_field *field = &schema->fields[i];
        size_t length = strlen(field->name);
        if (field->parent != parent || field->kind != ARROW_STRUCT ||
            strncmp(field->name, path, length) != 0 || path[length] != '.')
            continue;
        uint32_t found = find_path(schema, i, path + length + 1);
        if (found != ARROW_NO_FIELD)
            return found;
    }
    return ARROW_NO_FIELD;
}

// "a, b, c" of what is directly in `parent`, as far as there is room.
static void list_names(const struct arrow_schema *schema, uint32_t parent, char text[TEXT]) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < schema->count && used < TEXT; i++)
        if (schema->fields[i].parent == parent)
            used +=
                (size_t)snprintf(text + used, TEXT - used, "%s%s", used ? ", " : "", schema->fields[i].name);
    if (used >= TEXT)
        memcpy(text + TEXT - 4, "...", 4);
}

// ---- By type -------------------------------------------------------------------------------------------------

// The number that lists of fixed sizes end in, and their sizes. ARROW_NO_FIELD: they end in something else.
static uint32_t follow_fixed(const struct arrow_schema *schema, uint32_t field, uint32_t *dimensions,
                             uint64_t shape[RING_MAX_DIMS]) {
    *dimensions = 0;
    while (field != ARROW_NO_FIELD && *dimensions < RING_MAX_DIMS) {
        const struct arrow_field *at = &schema->fields[field];
        if (at->kind != ARROW_FIXED_LIST && at->kind != ARROW_FIXED_BINARY)
            break;
        shape[(*dimensions)++] = at->size;
        if (at->kind == ARROW_FIXED_BINARY)
            return field;
        field = child_of(schema, field);
    }
    return field != ARROW_NO_FIELD && schema->fields[field].kind == ARROW_NUMBER ? field : ARROW_NO_FIELD;
}

// What may be declared for a column: "i64", "f32[3,4]"; "" if nothing.
static void suggest(const struct arrow_schema *schema, uint32_t index, char text[TEXT]) {
    const struct arrow_field *field = &schema->fields[index];
    uint64_t shape[RING_MAX_DIMS];
    uint32_t dimensions, values = follow_fixed(schema, index, &dimensions, shape);
    char shape_text[DATASET_SHAPE_TEXT];
    text[0] = '\0';
    if (values != ARROW_NO_FIELD) {
        snprintf(text, TEXT, "%s%.64s", dtype_name(schema->fields[values].dtype),
                 dataset_shape_text(dimensions, shape, shape_text));
    } else if (field->kind == ARROW_BOOL) {
        snprintf(text, TEXT, "bool");
    } else if (is_binary(field)) {
        snprintf(text, TEXT, "bytes or length");
    } else if (is_list(field)) {
        values = child_of(schema, index);
        if (values != ARROW_NO_FIELD && schema->fields[values].kind == ARROW_NUMBER)
            snprintf(text, TEXT, "%s[], or %s[N] if all have N, or length",
                     dtype_name(schema->fields[values].dtype), dtype_name(schema->fields[values].dtype));
        else
            snprintf(text, TEXT, "length");
    }
}

static int refuse_type(const struct arrow_schema *schema, const struct arrow_want *want, uint32_t index,
                       struct error *error) {
    const struct arrow_field *field = &schema->fields[index];
    char text[TEXT];
    if (field->kind == ARROW_DICTIONARY)
        return error_set(
            error, -ENOTSUP,
            "found column \"%s\" dictionary-encoded, wanted plain values; write it with pyarrow's"
            " dictionary_decode()",
            want->path);
    if (field->kind == ARROW_STRUCT) {
        list_names(schema, index, text);
        return error_set(error, -EINVAL,
                         "found a struct in column \"%s\", wanted one of its parts, as in %s.NAME: %s",
                         want->path, want->path, text);
    }
    suggest(schema, index, text);
    if (*text)
        return error_set(error, -EINVAL, "found column \"%s\" of type %s, which can be declared as %s",
                         want->path, field->type, text);
    return error_set(
        error, -ENOTSUP,
        "found column \"%s\" of type %s, wanted numbers, bool, string, binary, or lists of numbers;"
        " cast it with pyarrow",
        want->path, field->type);
}

static bool same_shape(const struct arrow_want *want, uint32_t dimensions, const uint64_t *shape) {
    return want->dimensions == dimensions && memcmp(want->shape, shape, dimensions * sizeof *shape) == 0;
}

// A number, or a shape of numbers: in lists of fixed sizes, or in a list of which all samples have as many.
static bool take_fixed(const struct arrow_schema *schema, const struct arrow_want *want,
                       struct arrow_column *column) {
    const struct arrow_field *field = &schema->fields[column->field];
    uint64_t shape[RING_MAX_DIMS];
    uint32_t dimensions;
    if (field->kind == ARROW_BOOL)
        return want->form == ARROW_VALUE && want->dtype == DTYPE_BOOL;
    column->values = follow_fixed(schema, column->field, &dimensions, shape);
    if (column->values == ARROW_NO_FIELD || schema->fields[column->values].dtype != want->dtype ||
        !same_shape(want, dimensions, shape))
        return false;
    column->value_bytes = (uint32_t)want->index.column.bytes;
    return true;
}

// What offsets delimit: bytes, or the numbers of a list. Or only how many.
static bool take_ragged(const struct arrow_schema *schema, const struct arrow_want *want,
                        struct arrow_column *column) {
    const struct arrow_field *field = &schema->fields[column->field];
    bool array = want->form == ARROW_ARRAY;
    column->offset_bytes = offset_bytes(field);
    column->value_bytes = 1;
    if (want->form == ARROW_LENGTH)
        return column->offset_bytes != 0;
    if (is_binary(field))
        return want->dtype == DTYPE_U8 && want->dimensions == 1;
    column->values = child_of(schema, column->field);
    if (!is_list(field) || want->form == ARROW_BYTES || (array && want->dimensions != 1) ||
        column->values == ARROW_NO_FIELD)
        return false;
    const struct arrow_field *values = &schema->fields[column->values];
    column->value_bytes = (uint32_t)dtype_bytes(want->dtype);
    return values->kind == ARROW_NUMBER && values->dtype == want->dtype;
}

int arrow_column_find(const struct arrow_schema *schema, const struct arrow_want *want,
                      struct arrow_column *column, struct error *error) {
    char text[TEXT];
    *column = (struct arrow_column){.field = find_path(schema, ARROW_NO_FIELD, want->path)};
    if (column->field == ARROW_NO_FIELD) {
        list_names(schema, ARROW_NO_FIELD, text);
        return error_set(error, -EINVAL, "found no column \"%s\", wanted one of these, or a part of one: %s",
                         want->path, text);
    }
    column->values = column->field;
    const struct arrow_field *field = &schema->fields[column->field];
    bool taken = offset_bytes(field) ? want->form != ARROW_VALUE && take_ragged(schema, want, column)
                                     : (want->form == ARROW_VALUE || want->form == ARROW_ARRAY) &&
                                           take_fixed(schema, want, column);
    return taken ? 0 : refuse_type(schema, want, column->field, error);
}
