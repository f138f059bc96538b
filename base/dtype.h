// Element types of a field. The numbers are part of the ring layout, the protocol and client/feed.h.
#ifndef FEEDD_BASE_DTYPE_H
#define FEEDD_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>

enum dtype {
    DTYPE_BOOL = 1, // one byte, 0 or 1
    DTYPE_U8 = 2,
    DTYPE_I8 = 3,
    DTYPE_U16 = 4,
    DTYPE_I16 = 5,
    DTYPE_U32 = 6,
    DTYPE_I32 = 7,
    DTYPE_U64 = 8,
    DTYPE_I64 = 9,
    DTYPE_F16 = 10,
    DTYPE_BF16 = 11,
    DTYPE_F32 = 12,
    DTYPE_F64 = 13,
    DTYPE_C64 = 14,  // two f32
    DTYPE_C128 = 15, // two f64
};

// Bytes of one element; 0 for a number that is no dtype.
size_t dtype_bytes(uint32_t dtype);

// "u8", "bf16", ...; "?" for a number that is no dtype.
const char *dtype_name(uint32_t dtype);

// The dtype of that name, or 0.
uint32_t dtype_parse(const char *name);

// The name here of what other programs call "uint8", "torch.float32", "double" or "U8", for error messages; or NULL.
const char *dtype_nearest(const char *name);

// All names, for error messages: "bool u8 i8 ... c128".
extern const char dtype_names[];

#endif
