#include "daemon/source/folder/folder_fields.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_pad.h"
#include "daemon/source/build/text_value.h"

#define BLANKS " \t"
#define CSV    "csv:" // before the name of a column that is also the name of another source

static int refuse_type(struct builder *builder, const char *type) {
    const char *nearest = dtype_parse(type) ? NULL : dtype_nearest(type);
    if (nearest)
        return builder_refuse(builder, -EINVAL, NULL, "unknown type \"%s\"; perhaps you mean \"%s\"", type,
                              nearest);
    return builder_refuse(
        builder, -EINVAL, NULL,
        "found type \"%s\", wanted bytes, length, or the type of a number: u8 to i64, f32 or"
        " f64",
        type);
}

static int parse_type(struct builder *builder, const char *type, struct folder_field *field) {
    bool bytes = strcmp(type, "bytes") == 0, length = strcmp(type, "length") == 0;
    field->kind = bytes ? FOLDER_BYTES : length ? FOLDER_LENGTH : FOLDER_NUMBER;
    field->dtype = bytes ? DTYPE_U8 : length ? DTYPE_I64 : dtype_parse(type);
    return text_value_takes(field->dtype) ? 0 : refuse_type(builder, type);
}

static int parse_source(struct builder *builder, const char *source, struct folder_field *field) {
    static const char *const names[] = {
        [FOLDER_FILE] = "file", [FOLDER_NAME] = "name", [FOLDER_CLASS] = "class"};
    field->source = FOLDER_COLUMN;
    field->column = strncmp(source, CSV, strlen(CSV)) == 0 ? source + strlen(CSV) : source;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(source, names[i]) == 0)
            field->source = (enum folder_source)i;
    if (field->source == FOLDER_COLUMN && !builder->config->csv)
        return builder_refuse(
            builder, -EINVAL, NULL,
            "found source \"%s\", wanted file, class or name, or csv = FILE with a column of"
            " that name",
            source);
    if (field->source == FOLDER_CLASS && builder->config->csv)
        return builder_refuse(builder, -EINVAL, NULL,
                              "found source \"class\" together with csv, wanted a column of the CSV file"
                              " instead; csv:class is a column of that name");
    bool number = field->kind == FOLDER_NUMBER;
    if (number && (field->source == FOLDER_FILE || field->source == FOLDER_NAME))
        return builder_refuse(builder, -EINVAL, NULL, "found a number @ %s, wanted bytes or length @ %s",
                              source, source);
    if (number && field->source == FOLDER_CLASS && (field->dtype < DTYPE_U8 || field->dtype > DTYPE_I64))
        return builder_refuse(builder, -EINVAL, NULL, "found %s @ class, wanted the type of an integer",
                              dtype_name(field->dtype));
    return 0;
}

// "TYPE" or "TYPE @ SOURCE".
static int parse_value(struct builder *builder, const char *value, struct folder_field *field) {
    char type[16];
    size_t length = strcspn(value, BLANKS "@");
    const char *rest = value + length + strspn(value + length, BLANKS);
    const char *source = field->name;
    snprintf(type, sizeof type, "%.*s", (int)min_u64(length, sizeof type - 1), value);
    if (*rest == '@')
        source = rest + 1 + strspn(rest + 1, BLANKS);
    if ((*rest && *rest != '@') || !*source)
        return builder_refuse(builder, -EINVAL, NULL,
                              "found \"%s\", wanted TYPE @ file, class, name, or a column of the CSV file",
                              value);
    int err = parse_type(builder, type, field);
    return err ? err : parse_source(builder, source, field);
}

static int parse_field(struct builder *builder, bool add, struct folder_fields *fields,
                       struct folder_field *field) {
    struct dataset_column *column = &field->index.column;
    uint64_t length = 0;
    int err = parse_value(builder, builder->field->value, field);
    bool bytes = field->kind == FOLDER_BYTES;
    if (!err && bytes)
        err = builder_pad(builder, field->name, DTYPE_U8, &length, &column->pad);
    if (err)
        return err;
    column->kind = !bytes ? COLUMN_VALUES : field->source == FOLDER_FILE ? COLUMN_EXTENTS : COLUMN_TEXT;
    column->field = fields->count;
    column->bytes = bytes ? length : dtype_bytes(field->dtype);
    field->index.row_offset = (uint32_t)fields->row_bytes;
    fields->row_bytes += bytes ? sizeof(struct index_extent) : sizeof(uint64_t);
    fields->uses_class |= field->source == FOLDER_CLASS;
    uint32_t index;
    if (add && bytes && !length)
        return builder_add_ragged_field(builder, field->name, field->dtype);
    return add ? builder_add_field(builder, field->name, field->dtype, bytes, &length, &index) : 0;
}

int folder_fields_parse(struct builder *builder, bool add, struct folder_fields *fields) {
    const struct dataset_config *config = builder->config;
    const char *ragged[RING_MAX_FIELDS];
    uint32_t ragged_count = 0;
    *fields = (struct folder_fields){0};
    for (size_t i = 0; i < config->field_count; i++) {
        builder->field = &config->fields[i];
        if (fields->count == RING_MAX_FIELDS)
            return builder_refuse(builder, -EINVAL, NULL, "found too many fields, wanted at most %u",
                                  RING_MAX_FIELDS);
        struct folder_field *field = &fields->fields[fields->count];
        field->name = config->fields[i].name;
        int err = parse_field(builder, add, fields, field);
        if (err)
            return err;
        if (field->kind == FOLDER_BYTES)
            ragged[ragged_count++] = field->name;
        fields->count++;
    }
    builder->field = NULL;
    return builder_check_pads(builder, ragged, ragged_count);
}
