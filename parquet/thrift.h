// Thrift's compact protocol, in which Parquet's metadata is written.
//
// Files may be hostile: nothing is read beyond the end, work is bounded by the number of bytes, and after the first
// thing that cannot be, `broken` is set and everything reads as empty.
#ifndef FEEDD_PARQUET_THRIFT_H
#define FEEDD_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stdint.h>

enum thrift_type {
    THRIFT_STOP = 0,
    THRIFT_TRUE = 1,
    THRIFT_FALSE = 2,
    THRIFT_BYTE = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_DOUBLE = 7,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_SET = 10,
    THRIFT_MAP = 11,
    THRIFT_STRUCT = 12,
};

struct thrift {
    const uint8_t *at, *end;
    bool broken;
    uint32_t depth; // of what is being skipped
};

struct thrift_field {
    int32_t id;   // 0 before the first one of a struct
    uint8_t type; // enum thrift_type
};

// The next field of a struct, whose value must be read or skipped. False: the struct has ended.
bool thrift_next(struct thrift *thrift, struct thrift_field *field);

// The value of the field: what is of another type makes the input broken.
int64_t thrift_integer(struct thrift *thrift, uint8_t type);
bool thrift_bool(struct thrift *thrift, uint8_t type);
uint32_t thrift_binary(struct thrift *thrift, uint8_t type, const uint8_t **bytes); // returns how many
// The number of elements, each of which takes at least a byte, and their type.
uint32_t thrift_list(struct thrift *thrift, uint8_t type, uint8_t *element);
// Whether a struct begins.
bool thrift_struct(struct thrift *thrift, uint8_t type);
void thrift_skip(struct thrift *thrift, uint8_t type);

#endif
