// From a record batch to the rows of an index: for each sample, where its bytes are, or its value.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_ROWS_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_ROWS_H

#include "daemon/source/arrow/arrow_column.h"
#include "daemon/source/arrow/arrow_input.h"
#include "daemon/source/arrow/arrow_spoiled.h"

#define ARROW_WINDOW (64u << 10)

// What all batches of a file have in common.
struct arrow_rows {
    const struct arrow_fields *fields;
    const struct arrow_file *file;
    uint32_t number; // of the file in the dataset
    struct arrow_column columns[RING_MAX_FIELDS];
    struct index_rows rows;
    struct arrow_spoiled spoiled;
    struct arrow_input input, nulls;
    _Alignas(8) uint8_t window[ARROW_WINDOW]; // of offsets or values
};

// Finds the columns in the file's schema. To be finished, also on failure; `rows` and `spoiled.incomplete` are the
// caller's.
int arrow_rows_start(struct arrow_rows *rows, struct error *error);

void arrow_rows_finish(struct arrow_rows *rows);

// Adds the samples of the file's batch.
int arrow_rows_add(struct arrow_rows *rows, const struct arrow_batch *batch, struct error *error);

#endif
