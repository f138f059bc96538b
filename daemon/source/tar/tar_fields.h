// The fields of a dataset of tar archives, as the configuration declares them.
#ifndef FEEDD_DAEMON_SOURCE_TAR_TAR_FIELDS_H
#define FEEDD_DAEMON_SOURCE_TAR_TAR_FIELDS_H

#include "daemon/source/build/value_field.h"

struct tar_field {
    struct value_field value; // of a member; a number is written in it
    const char *extensions;   // "jpg|jpeg"; the configuration's
};

struct tar_fields {
    uint32_t count;
    size_t row_bytes; // of the fields' entries in a row
    struct tar_field fields[RING_MAX_FIELDS];
};

// Parses the configuration's fields, and adds them to the dataset if `add`.
int tar_fields_parse(struct builder *builder, bool add, struct tar_fields *fields);

// Whether `extension` is one of "jpg|jpeg", whatever its case.
bool tar_field_takes(const struct tar_field *field, const char *extension);

#endif
