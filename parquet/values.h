// Values of one size, in any of their encodings: laid end to end.
#ifndef FEEDD_PARQUET_VALUES_H
#define FEEDD_PARQUET_VALUES_H

#include "base/error.h"
#include "parquet/delta.h"
#include "parquet/page.h"
#include "parquet/rle.h"

// What values are, and what is made of them. `bytes` is less than `stored` where a small integer is stored as a larger
// one, of which the low bytes count.
struct parquet_type {
    uint32_t physical; // enum parquet_physical
    uint32_t stored;   // bytes of a value; 0: a bit
    uint32_t bytes;    // ... as it is delivered
};

// Values of a dictionary page, laid end to end as they are stored.
struct parquet_dictionary {
    const uint8_t *values;
    uint32_t count;
};

// The values of a page. At most one of the encodings' states is in use.
struct parquet_values {
    struct parquet_type type;
    struct parquet_dictionary dictionary;
    uint32_t encoding; // enum parquet_encoding
    const uint8_t *bytes;
    uint64_t count; // of the bytes
    uint64_t next;  // value
    uint64_t all;   // of BYTE_STREAM_SPLIT, which needs to know: values
    struct rle rle;
    struct delta delta;
};

// `all` is how many values there are. -EINVAL or -ENOTSUP, with a sentence.
int parquet_values_open(struct parquet_values *values, const struct parquet_type *type, int32_t encoding,
                        const uint8_t *bytes, uint64_t count, uint64_t all,
                        const struct parquet_dictionary *dictionary, struct error *error);

// The next `count` values into `to`, which has type.bytes for each.
int parquet_values_read(struct parquet_values *values, uint8_t *to, uint64_t count, struct error *error);

const char *parquet_encoding_name(int32_t encoding);

#endif
