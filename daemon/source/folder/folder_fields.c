#include "daemon/source/folder/folder_fields.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_pad.h"

#define CSV "csv:" // before the name of a column that is also the name of another source

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
    const uint32_t dtype = field->value.dtype;
    bool number = field->value.kind == VALUE_NUMBER;
    if (number && (field->source == FOLDER_FILE || field->source == FOLDER_NAME))
        return builder_refuse(builder, -EINVAL, NULL, "found a number @ %s, wanted bytes or length @ %s",
                              source, source);
    if (number && field->source == FOLDER_CLASS && (dtype < DTYPE_U8 || dtype > DTYPE_I64))
        return builder_refuse(builder, -EINVAL, NULL, "found %s @ class, wanted the type of an integer",
                              dtype_name(dtype));
    return 0;
}

static int parse_field(struct builder *builder, struct folder_field *field) {
    const char *source;
    int err = value_field_parse(builder, "TYPE @ file, class, name, or a column of the CSV file",
                                &field->value, &source);
    return err ? err : parse_source(builder, source, field);
}

int folder_fields_parse(struct builder *builder, bool add, struct folder_fields *fields) {
    const struct dataset_config *config = builder->config;
    const char *ragged[RING_MAX_FIELDS];
    uint32_t ragged_count = 0;
    *fields = (struct folder_fields){0};
    for (uint32_t i = 0; i < config->field_count; i++) {
        builder->field = &config->fields[i];
        if (fields->count == RING_MAX_FIELDS)
            return builder_refuse(builder, -EINVAL, NULL, "found too many fields, wanted at most %u",
                                  RING_MAX_FIELDS);
        struct folder_field *field = &fields->fields[fields->count];
        int err = parse_field(builder, field);
        if (!err)
            err = value_field_place(builder, add, i,
                                    field->source == FOLDER_FILE ? COLUMN_EXTENTS : COLUMN_TEXT,
                                    &fields->row_bytes, &field->value);
        if (err)
            return err;
        fields->uses_class |= field->source == FOLDER_CLASS;
        fields->has_names |= field->source == FOLDER_NAME && field->value.kind == VALUE_BYTES;
        if (field->value.kind == VALUE_BYTES)
            ragged[ragged_count++] = field->value.name;
        fields->count++;
    }
    builder->field = NULL;
    return builder_check_pads(builder, ragged, ragged_count);
}
