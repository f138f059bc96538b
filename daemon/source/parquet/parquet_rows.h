// From a row group to the rows of an index: for each sample, where its bytes are, or its value.
#ifndef FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_ROWS_H
#define FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_ROWS_H

#include "daemon/source/arrow/arrow_column.h"
#include "daemon/source/arrow/arrow_spoiled.h"
#include "daemon/source/parquet/parquet_pages.h"
#include "parquet/binary.h"
#include "parquet/values.h"

// What is at hand at once.
#define PARQUET_WINDOW 1024u

// A field of the dataset in the file.
struct parquet_column {
    const struct arrow_want *want;
    uint32_t number; // of the field in the dataset
    uint32_t leaf;
    uint32_t def; // a lower level is a null
    struct parquet_levels levels;
    struct parquet_type type; // of values that are not of BYTE_ARRAY
    uint32_t fixed;           // bytes of each sample's; 0: they differ
    uint64_t bytes;           // of its chunks so far, as they are stored
    bool list;
    bool binary; // where its bytes lie matters, not their value
};

// What all row groups of a file have in common.
struct parquet_rows {
    const struct arrow_fields *fields;
    const struct parquet_file *file;
    uint32_t number; // of the file in the dataset
    struct parquet_column columns[RING_MAX_FIELDS];
    struct index_rows rows;
    struct arrow_spoiled spoiled;
    struct parquet_pages pages;
};

// A column in one row group, while its samples are added.
struct parquet_part {
    struct parquet_rows *rows;
    const struct parquet_column *column;
    uint8_t *entry;     // of the next sample
    uint64_t row, most; // its number, and how many there are
    // The dictionary: values, or where they lie in its block.
    uint8_t *dictionary;
    struct parquet_dictionary values;
    struct parquet_spans spans;
    struct index_block dictionary_block;
    uint32_t block; // number of that; UINT32_MAX: not among those of the index yet
};

// Finds the columns in the file's schema.
int parquet_rows_start(struct parquet_rows *rows, struct error *error);

// Adds the samples of a row group, which has a chunk for each leaf of the schema.
int parquet_rows_add(struct parquet_rows *rows, const struct parquet_chunk *chunks, uint64_t count,
                     struct error *error);

// The entry of a sample that has `bytes` at `offset` of a block.
int parquet_put_extent(struct parquet_part *part, uint32_t block, uint64_t offset, uint64_t bytes,
                       struct error *error);

// Adds a block of the part's file and column.
int parquet_add_block(struct parquet_part *part, struct index_block *block, uint32_t *number,
                      struct error *error);

// The block of some pages whose values are to be laid end to end, `decoded` bytes altogether.
void parquet_pages_joined(const struct parquet_part *part, uint64_t offset, uint64_t end, uint64_t decoded,
                          struct index_block *block);

// A row of the part has a null, in its place or among its values: refuses it, unless such rows are listed.
int parquet_take_null(struct parquet_part *part, uint64_t row, struct error *error);
int parquet_refuse_levels(struct error *error);

#endif
