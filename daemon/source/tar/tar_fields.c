#include "daemon/source/tar/tar_fields.h"

#include <string.h>

#include "daemon/source/build/builder_pad.h"

static int parse_field(struct builder *builder, struct tar_field *field) {
    int err = value_field_parse(builder, "TYPE @ EXTENSION|EXTENSION", &field->value, &field->extensions);
    const char *extensions = field->extensions;
    if (err)
        return err;
    if (strpbrk(extensions, " \t/@") || strstr(extensions, "||") || *extensions == '|' ||
        extensions[strlen(extensions) - 1] == '|' || *extensions == '.' || strstr(extensions, "|."))
        return builder_refuse(builder, -EINVAL, NULL,
                              "found \"%s\", wanted extensions of members after the @, separated by | and"
                              " without a dot in front: jpg|jpeg",
                              extensions);
    return 0;
}

int tar_fields_parse(struct builder *builder, bool add, struct tar_fields *fields) {
    const struct dataset_config *config = builder->config;
    const char *ragged[RING_MAX_FIELDS];
    uint32_t ragged_count = 0;
    *fields = (struct tar_fields){0};
    for (uint32_t i = 0; i < config->field_count; i++) {
        builder->field = &config->fields[i];
        if (fields->count == RING_MAX_FIELDS)
            return builder_refuse(builder, -EINVAL, NULL, "found too many fields, wanted at most %u",
                                  RING_MAX_FIELDS);
        struct tar_field *field = &fields->fields[fields->count];
        int err = parse_field(builder, field);
        if (!err)
            err = value_field_place(builder, add, i, COLUMN_EXTENTS, &fields->row_bytes, &field->value);
        if (err)
            return err;
        if (field->value.kind == VALUE_BYTES)
            ragged[ragged_count++] = field->value.name;
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
