// Which part of an Arrow file's schema a field of the dataset is, and whether it is of the type that was declared.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_COLUMN_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_COLUMN_H

#include "daemon/source/arrow/arrow_fields.h"
#include "daemon/source/arrow/arrow_schema.h"

struct arrow_column {
    uint32_t field;        // in the schema: the one that the path names
    uint32_t values;       // ... and the one that has the values: the same, or inside of it
    uint32_t offset_bytes; // of one of its offsets; 0: it has none
    uint32_t value_bytes;  // of what offsets count, or of one sample if there are none; 0: one bit
};

// -EINVAL or -ENOTSUP, with a sentence that says what there is and what can be declared.
int arrow_column_find(const struct arrow_schema *schema, const struct arrow_want *want,
                      struct arrow_column *column, struct error *error);

#endif
