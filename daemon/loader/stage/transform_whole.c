#include "daemon/loader/stage/transform_whole.h"

#include <math.h>

#include "base/dtype.h"

// As found in records: at any alignment.
#define LOOSE __attribute__((aligned(1), may_alias))
typedef uint8_t LOOSE loose_u8;
typedef int8_t LOOSE loose_i8;
typedef uint16_t LOOSE loose_u16;
typedef int16_t LOOSE loose_i16;
typedef uint32_t LOOSE loose_u32;
typedef int32_t LOOSE loose_i32;
typedef uint64_t LOOSE loose_u64;
typedef int64_t LOOSE loose_i64;

bool transform_is_whole(uint32_t dtype) {
    return dtype >= DTYPE_BOOL && dtype <= DTYPE_I64;
}
_Static_assert(DTYPE_BOOL < DTYPE_U8 && DTYPE_I64 == 9, "all between them are integers");

// What each integer type is called in the two kinds of names, its limits, and the first power of two that is too much.
// That one is exact in float64, unlike the greatest value.
#define WHOLE_TYPES(X)                                                                                       \
    X(U8, loose_u8, 0, UINT8_MAX, 0x1p8)                                                                     \
    X(I8, loose_i8, INT8_MIN, INT8_MAX, 0x1p7)                                                               \
    X(U16, loose_u16, 0, UINT16_MAX, 0x1p16)                                                                 \
    X(I16, loose_i16, INT16_MIN, INT16_MAX, 0x1p15)                                                          \
    X(U32, loose_u32, 0, UINT32_MAX, 0x1p32)                                                                 \
    X(I32, loose_i32, INT32_MIN, INT32_MAX, 0x1p31)                                                          \
    X(I64, loose_i64, INT64_MIN, INT64_MAX, 0x1p63)

#define LOAD(name, type, least, most, beyond)                                                                \
    case DTYPE_##name:                                                                                       \
        for (size_t i = 0; i < count; i++)                                                                   \
            to[i] = (int64_t)((const type *)from)[i];                                                        \
        return;

void transform_load_whole(uint32_t dtype, int64_t *restrict to, const void *restrict from, size_t count) {
    switch (dtype == DTYPE_BOOL ? (uint32_t)DTYPE_U8 : dtype) {
        WHOLE_TYPES(LOAD)
    default:
        for (size_t i = 0; i < count; i++) {
            const uint64_t value = ((const loose_u64 *)from)[i];
            to[i] = value > INT64_MAX ? INT64_MAX : (int64_t)value;
        }
    }
}

#define STORE(name, type, least, most, beyond)                                                               \
    case DTYPE_##name:                                                                                       \
        for (size_t i = 0; i < count; i++)                                                                   \
            ((type *)to)[i] = (type)(from[i] < (least) ? (least) : from[i] > (most) ? (most) : from[i]);     \
        return;

void transform_store_whole(uint32_t dtype, void *restrict to, const int64_t *restrict from, size_t count) {
    switch (dtype) {
        WHOLE_TYPES(STORE)
    default:
        for (size_t i = 0; i < count; i++)
            ((loose_u64 *)to)[i] = from[i] < 0 ? 0 : (uint64_t)from[i];
    }
}

// NaN becomes 0.
#define ROUND(name, type, least, most, beyond)                                                               \
    case DTYPE_##name:                                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                 \
            const double value = rint(from[i]);                                                              \
            type whole = value == value ? (least) : 0;                                                       \
            if (value >= (beyond))                                                                           \
                whole = (most);                                                                              \
            else if (value > (double)(least))                                                                \
                whole = (type)value;                                                                         \
            ((type *)to)[i] = whole;                                                                         \
        }                                                                                                    \
        return;

void transform_store_rounded(uint32_t dtype, void *restrict to, const double *restrict from, size_t count) {
    switch (dtype) {
        WHOLE_TYPES(ROUND)
    default:
        for (size_t i = 0; i < count; i++) {
            const double value = rint(from[i]);
            ((loose_u64 *)to)[i] = value >= 0x1p64 ? UINT64_MAX : value > 0 ? (uint64_t)value : 0;
        }
    }
}
