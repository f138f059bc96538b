// A Parquet file: its footer, and whatever else is read of it.
#ifndef FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_FILE_H
#define FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_FILE_H

#include "daemon/source/parquet/parquet_schema.h"

struct parquet_file {
    int fd;         // the caller's
    uint64_t bytes; // of the file
    struct parquet_footer footer;
    struct parquet_schema schema;
    uint8_t *metadata; // what the footer points into
};

// Reads footer and schema. To be released, also on failure. `error` is not NULL, here and below.
int parquet_file_open(struct parquet_file *file, int fd, uint64_t bytes, struct error *error);
void parquet_file_release(struct parquet_file *file);

#endif
