// The fields of a dataset of tar archives, as the configuration declares them.
#ifndef FEEDD_DAEMON_SOURCE_TAR_TAR_FIELDS_H
#define FEEDD_DAEMON_SOURCE_TAR_TAR_FIELDS_H

#include "daemon/source/build/builder_index.h"

enum tar_kind {
    TAR_BYTES,  // of the member
    TAR_LENGTH, // how many it has
    TAR_NUMBER, // written in it
};

struct tar_field {
    enum tar_kind kind;
    uint32_t dtype;
    const char *name;       // the configuration's
    const char *extensions; // "jpg|jpeg"; the configuration's
    struct index_field index;
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
