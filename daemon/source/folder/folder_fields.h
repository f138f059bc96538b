// The fields of a dataset of format folder, as the configuration declares them: TYPE @ SOURCE.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_FIELDS_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_FIELDS_H

#include "daemon/source/build/value_field.h"

enum folder_source {
    FOLDER_FILE,
    FOLDER_NAME,   // the file's path, as seen from the folder
    FOLDER_CLASS,  // the name of the sub-directory that it is in
    FOLDER_COLUMN, // of the CSV file
};

struct folder_field {
    struct value_field value; // of the source; a number is that of the class, or written in the CSV file
    enum folder_source source;
    const char *column; // the configuration's, of FOLDER_COLUMN
};

struct folder_fields {
    uint32_t count;
    size_t row_bytes; // of the fields' entries in a row
    bool uses_class;
    bool has_names; // as bytes
    struct folder_field fields[RING_MAX_FIELDS];
};

// Parses the configuration's fields, and adds them to the dataset if `add`.
int folder_fields_parse(struct builder *builder, bool add, struct folder_fields *fields);

#endif
