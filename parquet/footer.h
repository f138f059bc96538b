// The footer of a Parquet file: its schema, and where the columns of each row group lie.
//
// Files may be hostile. What a footer says of the file (offsets, lengths) is not believed here, only handed on.
#ifndef FEEDD_PARQUET_FOOTER_H
#define FEEDD_PARQUET_FOOTER_H

#include "base/error.h"
#include "parquet/thrift.h"

#define PARQUET_MAX_ELEMENTS 65536u // of a schema

enum parquet_repetition {
    PARQUET_REQUIRED = 0,
    PARQUET_OPTIONAL = 1,
    PARQUET_REPEATED = 2,
};

// Parquet's numbers, here and below.
enum parquet_physical {
    PARQUET_BOOLEAN = 0,
    PARQUET_INT32 = 1,
    PARQUET_INT64 = 2,
    PARQUET_INT96 = 3,
    PARQUET_FLOAT = 4,
    PARQUET_DOUBLE = 5,
    PARQUET_BYTE_ARRAY = 6,
    PARQUET_FIXED = 7, // FIXED_LEN_BYTE_ARRAY
};

// "Converted" and "logical" types: what a physical one means.
enum parquet_converted {
    PARQUET_CONVERTED_NONE = -1,
    PARQUET_CONVERTED_MAP = 1,
    PARQUET_CONVERTED_LIST = 3,
    PARQUET_CONVERTED_DECIMAL = 5,
    PARQUET_CONVERTED_UINT_8 = 11, // then 16, 32 and 64, and then the same of INT
    PARQUET_CONVERTED_INT_64 = 18,
    PARQUET_CONVERTED_INTERVAL = 21,
};
enum parquet_logical {
    PARQUET_LOGICAL_NONE = 0,
    PARQUET_LOGICAL_MAP = 2,
    PARQUET_LOGICAL_LIST = 3,
    PARQUET_LOGICAL_DECIMAL = 5,
    PARQUET_LOGICAL_INTEGER = 10,
    PARQUET_LOGICAL_FLOAT16 = 15,
};

// A node of the schema, parents before children.
struct parquet_element {
    const char *name;
    int32_t physical; // of a leaf
    int32_t length;   // of PARQUET_FIXED
    int32_t repetition;
    uint32_t children; // 0: a leaf
    int32_t converted;
    int32_t logical;
    int32_t bits; // of PARQUET_LOGICAL_INTEGER
    bool is_signed;
};

// A leaf in a row group.
struct parquet_chunk {
    int32_t physical;
    int32_t codec;
    uint64_t values; // with nulls
    uint64_t offset; // of its first page, in the file
    uint64_t bytes;  // of all of its pages, as they are stored
    bool elsewhere;  // in another file
    bool encrypted;
};

struct parquet_footer {
    struct parquet_element *elements; // [0] is the root
    uint32_t count;
    uint32_t leaves;
    uint32_t groups;
    // Private.
    char *names;
    struct thrift next; // group
    uint32_t number;    // of it, from 0
};

// `bytes` must stay. To be released, also on failure.
int parquet_footer_read(const uint8_t *bytes, uint64_t count, struct parquet_footer *footer,
                        struct error *error);
void parquet_footer_release(struct parquet_footer *footer);

// 1: the next row group, with a chunk for each leaf; 0: there is none; or a negative errno and a sentence.
int parquet_footer_next(struct parquet_footer *footer, struct parquet_chunk *chunks, uint64_t *rows,
                        struct error *error);

#endif
