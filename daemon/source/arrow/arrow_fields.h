// The fields of a dataset of Arrow files, as the configuration declares them.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_FIELDS_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_FIELDS_H

#include "daemon/source/build/builder_index.h"

enum arrow_form {
    ARROW_BYTES,  // of a string or binary value
    ARROW_LENGTH, // how many bytes or values a sample has
    ARROW_VALUE,  // one number
    ARROW_ARRAY,  // of a shape that all samples have
    ARROW_VALUES, // any number of numbers: a list
};

struct arrow_want {
    enum arrow_form form;
    uint32_t dtype;
    uint32_t dimensions;
    uint64_t shape[RING_MAX_DIMS];
    const char *name; // the configuration's
    const char *path; // of the column, "image.bytes"; the configuration's
    struct index_field index;
};

struct arrow_fields {
    uint32_t count;
    size_t row_bytes; // of the fields' entries in a row
    struct arrow_want fields[RING_MAX_FIELDS];
};

// Parses the configuration's fields, and adds them to the dataset if `add`.
int arrow_fields_parse(struct builder *builder, bool add, struct arrow_fields *fields);

#endif
