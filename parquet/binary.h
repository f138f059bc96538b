// Values of any length: where each of them lies.
#ifndef FEEDD_PARQUET_BINARY_H
#define FEEDD_PARQUET_BINARY_H

#include "base/error.h"
#include "parquet/delta.h"
#include "parquet/page.h"
#include "parquet/rle.h"

struct parquet_span {
    uint64_t offset;
    uint32_t bytes;
};

// Of a dictionary page: its values, by number.
struct parquet_spans {
    const struct parquet_span *spans;
    uint32_t count;
};

struct parquet_binary {
    int32_t encoding;
    struct parquet_spans dictionary;
    const uint8_t *bytes;
    uint64_t count;  // of them
    uint64_t at;     // where the next value begins, in the bytes, or among values laid end to end
    uint64_t before; // length of the value before it, of which a part can be shared
    uint64_t shared; // bytes of all values that were shared with the one before
    struct rle rle;
    struct delta prefixes, lengths;
    uint32_t fixed; // PARQUET_FIXED: bytes of each value; 0: they differ
};

// `fixed` is 0 or the length of all values, and `all` how many values there are. -EINVAL or -ENOTSUP, with a sentence.
int parquet_binary_open(struct parquet_binary *binary, int32_t encoding, uint32_t fixed, const uint8_t *bytes,
                        uint64_t count, uint64_t all, const struct parquet_spans *dictionary,
                        struct error *error);

// Where the next `count` values lie: in a page with a dictionary, in the dictionary page; of DELTA_BYTE_ARRAY, among
// all values of the page laid end to end; else in the page's values.
int parquet_binary_read(struct parquet_binary *binary, struct parquet_span *spans, uint64_t count,
                        struct error *error);

// Lays the values of a page encoded as DELTA_BYTE_ARRAY end to end; they must have `room` bytes together.
int parquet_binary_join(const uint8_t *bytes, uint64_t count, uint64_t values, uint8_t *to, uint64_t room,
                        struct error *error);

#endif
