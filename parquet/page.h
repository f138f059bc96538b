// Pages: what a column chunk consists of. Each is a header and a body, which may be compressed.
#ifndef FEEDD_PARQUET_PAGE_H
#define FEEDD_PARQUET_PAGE_H

#include "base/error.h"

// Of a body, stored or decoded: what reading a page may take.
#define PARQUET_MAX_PAGE   (512u << 20)
#define PARQUET_MAX_HEADER (16u << 20)

enum parquet_page_kind {
    PARQUET_DATA = 0,
    PARQUET_INDEX = 1,
    PARQUET_DICTIONARY = 2,
    PARQUET_DATA_2 = 3,
};

enum parquet_encoding {
    PARQUET_PLAIN = 0,
    PARQUET_PLAIN_DICTIONARY = 2, // of a data page, the older number of RLE_DICTIONARY; else that of PLAIN
    PARQUET_RLE = 3,
    PARQUET_BIT_PACKED = 4,
    PARQUET_DELTA_BINARY_PACKED = 5,
    PARQUET_DELTA_LENGTH = 6,
    PARQUET_DELTA_BYTE_ARRAY = 7,
    PARQUET_RLE_DICTIONARY = 8,
    PARQUET_BYTE_STREAM_SPLIT = 9,
};

struct parquet_page {
    int32_t kind;
    int32_t encoding;
    uint32_t values; // with nulls
    uint32_t header; // bytes
    uint32_t stored, decoded;
    // Of PARQUET_DATA_2, where levels come first and are never compressed.
    uint32_t rep_bytes, def_bytes;
    bool compressed; // what follows them; of other pages, true
};

// Reads the header at the start of `bytes`. 1; 0: it may be longer than they are; or a negative errno and a sentence.
int parquet_page_read(const uint8_t *bytes, uint64_t count, struct parquet_page *page, struct error *error);

// The highest definition and repetition levels of a column.
struct parquet_levels {
    uint32_t def, rep;
};

// The parts of a page's body, as it is when decoded.
struct parquet_body {
    const uint8_t *rep, *def, *values;
    uint64_t rep_bytes, def_bytes, value_bytes;
};

int parquet_page_split(const struct parquet_page *page, const struct parquet_levels *levels,
                       const uint8_t *bytes, struct parquet_body *body, struct error *error);

// As many bits as levels up to `most` take.
uint32_t parquet_level_bits(uint32_t most);

#endif
