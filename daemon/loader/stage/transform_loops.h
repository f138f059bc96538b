
#include <stddef.h>
#include <stdint.h>
// One set of loops. Has no include guard: transform_kernels.c includes it once per instruction set, with SET, SET_NAME
// and VECTOR_BYTES defined.

#define LOAD(name, type, convert)                                                                            \
    static void SET(load_##name)(float *restrict to, const void *restrict memory, size_t count) {            \
        const type *restrict from = memory;                                                                  \
        for (size_t i = 0; i < count; i++)                                                                   \
            to[i] = convert(from[i]);                                                                        \
    }
LOAD(u8, loose_u8, (float))
LOAD(i8, loose_i8, (float))
LOAD(u16, loose_u16, (float))
LOAD(i16, loose_i16, (float))
LOAD(u32, loose_u32, (float))
LOAD(i32, loose_i32, (float))
LOAD(u64, loose_u64, (float))
LOAD(i64, loose_i64, (float))
LOAD(f64, loose_f64, (float))
LOAD(f16, loose_u16, from_f16)
LOAD(bf16, loose_u16, from_bf16)
#undef LOAD

static void SET(load_f32)(float *restrict to, const void *restrict from, size_t count) {
    memcpy(to, from, count * sizeof *to);
}

#define STORE(name, convert)                                                                                 \
    static void SET(store_##name)(void *restrict memory, const float *restrict from, size_t count) {         \
        loose_u16 *restrict to = memory;                                                                     \
        for (size_t i = 0; i < count; i++)                                                                   \
            to[i] = convert(from[i]);                                                                        \
    }
STORE(f16, to_f16)
STORE(bf16, to_bf16)
#undef STORE

static void SET(store_f32)(void *restrict to, const float *restrict from, size_t count) {
    memcpy(to, from, count * sizeof *from);
}

#define STEP(name, operator)                                                                                 \
    static void SET(name##_one)(float *x, float value, size_t count) {                                       \
        for (size_t i = 0; i < count; i++)                                                                   \
            x[i] = x[i] operator value;                                                                      \
    }                                                                                                        \
    static void SET(name##_each)(float *restrict x, const float *restrict values, size_t count) {            \
        for (size_t i = 0; i < count; i++)                                                                   \
            x[i] = x[i] operator values[i];                                                                  \
    }
STEP(scale, *)
STEP(shift, +)
STEP(mean, -)
STEP(std, /)
#undef STEP

// Vectors of the processor's size, so that the sums stay in registers.
typedef double __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias)) SET(doubles);
typedef float __attribute__((vector_size(VECTOR_BYTES / 2), aligned(4), may_alias)) SET(floats);
#define WIDTH  (VECTOR_BYTES / 8)
#define PARTS  (TRANSFORM_LANES / WIDTH)
#define UNROLL _Pragma("GCC unroll 16")

static void SET(sum)(double *lanes, const float *x, size_t count) {
    SET(doubles) sums[PARTS];
    size_t i = 0;
    UNROLL for (uint32_t part = 0; part < PARTS; part++) sums[part] =
        *(const SET(doubles) *)(lanes + part * WIDTH);
    for (; i + TRANSFORM_LANES <= count; i += TRANSFORM_LANES)
        UNROLL for (uint32_t part = 0; part < PARTS; part++) sums[part] +=
            __builtin_convertvector(*(const SET(floats) *)(x + i + part * WIDTH), SET(doubles));
    UNROLL for (uint32_t part = 0; part < PARTS; part++) * (SET(doubles) *)(lanes + part * WIDTH) =
        sums[part];
    for (size_t lane = 0; i < count; i++, lane++)
        lanes[lane] += (double)x[i];
}

static void SET(squares)(double *lanes, const float *x, double mean, size_t count) {
    SET(doubles) sums[PARTS];
    size_t i = 0;
    UNROLL for (uint32_t part = 0; part < PARTS; part++) sums[part] =
        *(const SET(doubles) *)(lanes + part * WIDTH);
    for (; i + TRANSFORM_LANES <= count; i += TRANSFORM_LANES)
        UNROLL for (uint32_t part = 0; part < PARTS; part++) {
            SET(doubles)
            off = __builtin_convertvector(*(const SET(floats) *)(x + i + part * WIDTH), SET(doubles)) - mean;
            sums[part] += off * off;
        }
    UNROLL for (uint32_t part = 0; part < PARTS; part++) * (SET(doubles) *)(lanes + part * WIDTH) =
        sums[part];
    for (size_t lane = 0; i < count; i++, lane++) {
        double off = (double)x[i] - mean;
        lanes[lane] += off * off;
    }
}

static const struct transform_kernels SET(set) = {
    .name = SET_NAME,
    .load = {[DTYPE_BOOL] = SET(load_u8),
             [DTYPE_U8] = SET(load_u8),
             [DTYPE_I8] = SET(load_i8),
             [DTYPE_U16] = SET(load_u16),
             [DTYPE_I16] = SET(load_i16),
             [DTYPE_U32] = SET(load_u32),
             [DTYPE_I32] = SET(load_i32),
             [DTYPE_U64] = SET(load_u64),
             [DTYPE_I64] = SET(load_i64),
             [DTYPE_F16] = SET(load_f16),
             [DTYPE_BF16] = SET(load_bf16),
             [DTYPE_F32] = SET(load_f32),
             [DTYPE_F64] = SET(load_f64)},
    .store = {[DTYPE_F16] = SET(store_f16), [DTYPE_BF16] = SET(store_bf16), [DTYPE_F32] = SET(store_f32)},
    .one = {[TRANSFORM_SCALE] = SET(scale_one),
            [TRANSFORM_SHIFT] = SET(shift_one),
            [TRANSFORM_MEAN] = SET(mean_one),
            [TRANSFORM_STD] = SET(std_one)},
    .each = {[TRANSFORM_SCALE] = SET(scale_each),
             [TRANSFORM_SHIFT] = SET(shift_each),
             [TRANSFORM_MEAN] = SET(mean_each),
             [TRANSFORM_STD] = SET(std_each)},
    .sum = SET(sum),
    .squares = SET(squares),
};

#undef WIDTH
#undef PARTS
#undef UNROLL
#undef SET
#undef SET_NAME
#undef VECTOR_BYTES
