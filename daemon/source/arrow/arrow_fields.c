#include "daemon/source/arrow/arrow_fields.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_pad.h"
#include "daemon/source/build/field_words.h"
#include "daemon/source/tokens/window_fields.h"

#define BLANKS " \t"

static int refuse_type(struct builder *builder, const char *value) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(value, BLANKS "[@"), value);
    const char *nearest = field_nearest_type(name);
    if (nearest)
        return builder_refuse(builder, -EINVAL, NULL, "unknown type \"%s\"; perhaps you mean \"%s\"", name,
                              nearest);
    return builder_refuse(builder, -EINVAL, NULL,
                          "found \"%s\", wanted TYPE or TYPE @ COLUMN, where TYPE is bytes, length, DTYPE,"
                          " DTYPE[N,...] with at most %u dimensions, or DTYPE[], and DTYPE one of %s",
                          value, RING_MAX_DIMS, dtype_names);
}

// "[N,...]" or "[]".
static bool take_shape(const char **at, struct arrow_want *want) {
    *at = field_skip_blanks(*at + 1);
    want->form = **at == ']' ? ARROW_VALUES : ARROW_ARRAY;
    while (want->form == ARROW_ARRAY) {
        if (want->dimensions == RING_MAX_DIMS || !field_take_number(at, &want->shape[want->dimensions++]))
            return false;
        if (**at != ',')
            break;
        *at = field_skip_blanks(*at + 1);
    }
    if (**at != ']')
        return false;
    (*at)++;
    return true;
}

static bool take_type(const char **at, struct arrow_want *want) {
    char type[16];
    size_t length = strcspn(*at, BLANKS "[@");
    if (length >= sizeof type)
        return false;
    memcpy(type, *at, length);
    type[length] = '\0';
    *at = field_skip_blanks(*at + length);
    want->form = ARROW_VALUE;
    want->dtype = dtype_parse(type);
    if (strcmp(type, "bytes") == 0) {
        want->form = ARROW_BYTES;
        want->dtype = DTYPE_U8;
        return true;
    }
    if (strcmp(type, "length") == 0) {
        want->form = ARROW_LENGTH;
        want->dtype = DTYPE_I64;
        return true;
    }
    return want->dtype && (**at != '[' || take_shape(at, want));
}

// "TYPE" or "TYPE @ COLUMN".
static bool parse_value(const char *at, struct arrow_want *want) {
    if (!take_type(&at, want))
        return false;
    at = field_skip_blanks(at);
    want->path = want->name;
    if (*at == '@')
        want->path = at = field_skip_blanks(at + 1);
    else if (*at)
        return false;
    return *want->path != '\0';
}

// Whether samples may differ in length.
static bool may_differ(const struct arrow_want *want) {
    return want->form == ARROW_BYTES || want->form == ARROW_VALUES;
}

// The length with which a field is delivered whose samples may differ; 0: it is ragged.
static int parse_pad(struct builder *builder, struct arrow_want *want) {
    want->dimensions = 1;
    return builder_pad(builder, want->name, want->dtype, &want->shape[0], &want->index.column.pad);
}

// The one field of documents that are packed: windows of it are delivered.
static int parse_documents(struct builder *builder, bool add, struct arrow_want *want) {
    const bool array = want->form == ARROW_ARRAY && want->dimensions == 1;
    if ((!may_differ(want) && !array) || want->dtype < DTYPE_U8 || want->dtype > DTYPE_I64)
        return builder_refuse(
            builder, -EINVAL, NULL,
            "found \"%s\", wanted what pack can lay end to end: DTYPE[] or DTYPE[N] of integers,"
            " or bytes",
            builder->field->value);
    want->dimensions = 1;
    return add ? window_fields_add(builder, want->name, want->dtype, true) : 0;
}

static int parse_field(struct builder *builder, bool add, struct arrow_fields *fields,
                       struct arrow_want *want) {
    struct dataset_column *column = &want->index.column;
    if (!parse_value(builder->field->value, want))
        return refuse_type(builder, builder->field->value);
    const bool packed = builder->config->pack;
    int err = packed ? parse_documents(builder, add, want) : may_differ(want) ? parse_pad(builder, want) : 0;
    if (err)
        return err;
    bool extents = may_differ(want) || want->form == ARROW_ARRAY;
    column->kind = extents ? COLUMN_EXTENTS : COLUMN_VALUES;
    column->field = fields->count;
    column->bytes = dtype_bytes(want->dtype);
    for (uint32_t i = 0; i < want->dimensions; i++)
        if (__builtin_mul_overflow(column->bytes, want->shape[i], &column->bytes))
            column->bytes = 0; // refused with the field below
    want->index.row_offset = (uint32_t)fields->row_bytes;
    fields->row_bytes += extents ? sizeof(struct index_extent) : align_up(column->bytes, sizeof(uint64_t));
    uint32_t index;
    if (packed)
        return 0;
    if (add && may_differ(want) && !want->shape[0])
        return builder_add_ragged_field(builder, want->name, want->dtype);
    return add ? builder_add_field(builder, want->name, want->dtype, want->dimensions, want->shape, &index)
               : 0;
}

static int refuse_fields(struct builder *builder) {
    builder->key = "pack";
    return builder_refuse(builder, -EINVAL, NULL, "found %zu fields, wanted one, which has the documents",
                          builder->config->field_count);
}

int arrow_fields_parse(struct builder *builder, bool add, struct arrow_fields *fields) {
    const struct dataset_config *config = builder->config;
    const char *differing[RING_MAX_FIELDS];
    uint32_t differing_count = 0;
    *fields = (struct arrow_fields){0};
    if (config->pack && config->field_count != 1)
        return refuse_fields(builder);
    for (size_t i = 0; i < config->field_count; i++) {
        builder->field = &config->fields[i];
        if (fields->count == RING_MAX_FIELDS)
            return builder_refuse(builder, -EINVAL, NULL, "found too many fields, wanted at most %u",
                                  RING_MAX_FIELDS);
        struct arrow_want *want = &fields->fields[fields->count];
        want->name = config->fields[i].name;
        int err = parse_field(builder, add, fields, want);
        if (err)
            return err;
        if (may_differ(want))
            differing[differing_count++] = want->name;
        fields->count++;
    }
    builder->field = NULL;
    if (config->pack)
        return 0; // window_fields_add has checked the pads
    return builder_check_pads(builder, differing, differing_count);
}
