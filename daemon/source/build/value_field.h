// A field of files that an index describes (formats tar and folder): bytes, how many they are, or a number.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_VALUE_FIELD_H
#define FEEDD_DAEMON_SOURCE_BUILD_VALUE_FIELD_H

#include "daemon/source/build/builder_index.h"

enum value_kind {
    VALUE_BYTES,  // of what the configuration names after the @
    VALUE_LENGTH, // how many it has
    VALUE_NUMBER, // that it says
};

struct value_field {
    enum value_kind kind;
    uint32_t dtype;
    const char *name; // the configuration's
    struct index_field index;
};

// Parses the builder's field: "TYPE", or "TYPE @ SOURCE". *source becomes the SOURCE, which is not empty, or the
// field's name; `form` says in a refusal what was wanted.
int value_field_parse(struct builder *builder, const char *form, struct value_field *field,
                      const char **source);

// Gives the field, which is number `number`, its column and, after *row_bytes, its place in a row. Bytes are a column
// of kind `bytes`. Adds the field to the dataset if `add`.
int value_field_place(struct builder *builder, bool add, uint32_t number, enum column_kind bytes,
                      size_t *row_bytes, struct value_field *field);

// Where its entry is in a row.
static inline void *value_field_entry(const struct value_field *field, uint8_t *row) {
    return row + field->index.row_offset;
}

#endif
