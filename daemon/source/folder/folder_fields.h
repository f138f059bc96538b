// The fields of a dataset of format folder, as the configuration declares them: TYPE @ SOURCE.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_FIELDS_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_FIELDS_H

#include "daemon/source/build/builder_index.h"

enum folder_kind {
    FOLDER_BYTES,  // the source's
    FOLDER_LENGTH, // how many it has
    FOLDER_NUMBER, // of the class, or written in the CSV file
};

enum folder_source {
    FOLDER_FILE,
    FOLDER_NAME,   // the file's path, as seen from the folder
    FOLDER_CLASS,  // the name of the sub-directory that it is in
    FOLDER_COLUMN, // of the CSV file
};

struct folder_field {
    enum folder_kind kind;
    enum folder_source source;
    uint32_t dtype;
    const char *name;   // the configuration's
    const char *column; // the configuration's, of FOLDER_COLUMN
    struct index_field index;
};

struct folder_fields {
    uint32_t count;
    size_t row_bytes; // of the fields' entries in a row
    bool uses_class;
    struct folder_field fields[RING_MAX_FIELDS];
};

// Parses the configuration's fields, and adds them to the dataset if `add`.
int folder_fields_parse(struct builder *builder, bool add, struct folder_fields *fields);

// Where a value's entry is in a row.
static inline void *folder_entry(const struct folder_field *field, uint8_t *row) {
    return row + field->index.row_offset;
}

#endif
