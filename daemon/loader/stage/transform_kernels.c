#include "daemon/loader/stage/transform_kernels.h"

#include <string.h>

// Vectors pay off where plain -O2 of gcc 12 would not try. The build has -ffp-contract=off: a fused multiply-add would
// round once where two roundings are promised.
#if defined __GNUC__ && !defined __clang__ && defined __OPTIMIZE__
#pragma GCC optimize("O3", "no-trapping-math")
#endif

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
typedef double LOOSE loose_f64;

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define F32_INF   0x7f800000u
#define F32_QUIET 0x00400000u
#define F16_SHIFT 13                  // bits of the fraction that f16 lacks
#define F16_BIAS  ((127u - 15) << 23) // between the exponents

static inline float from_f16(uint32_t half) {
    uint32_t rest = (half & 0x7fffu) << F16_SHIFT, exponent = rest & (0x1fu << 23);
    uint32_t normal = rest + F16_BIAS;
    uint32_t infinite = normal + F16_BIAS;
    // Subnormal: add an exponent, then subtract its value.
    uint32_t subnormal = bits_of(float_of(normal + (1u << 23)) - float_of(F16_BIAS + (1u << 23)));
    uint32_t bits = exponent == 0x1fu << 23 ? infinite : exponent == 0 ? subnormal : normal;
    return float_of(bits | (half & 0x8000u) << 16);
}

static inline uint16_t to_f16(float value) {
    const uint32_t magic = (127u - 15 + 23 - 10 + 1) << 23; // adding it leaves a subnormal's bits at the end
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    uint32_t normal = (bits - F16_BIAS + 0xfff + (bits >> F16_SHIFT & 1)) >> F16_SHIFT;
    uint32_t subnormal = bits_of(float_of(bits) + float_of(magic)) - magic;
    uint32_t special = bits > F32_INF ? 0x7e00u | (bits >> F16_SHIFT & 0x3ffu) : 0x7c00u;
    uint32_t half = bits >= (127u + 16) << 23 ? special : bits < (127u - 14) << 23 ? subnormal : normal;
    return (uint16_t)(half | sign);
}

static inline float from_bf16(uint32_t half) {
    return float_of(half << 16);
}

static inline uint16_t to_bf16(float value) {
    uint32_t bits = bits_of(value), rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (uint16_t)(((bits & 0x7fffffffu) > F32_INF ? bits | F32_QUIET : rounded) >> 16);
}

#define SET(loop)    loop##_plain
#define SET_NAME     "plain"
#define VECTOR_BYTES 16
#include "daemon/loader/stage/transform_loops.h"

// clang has no such pragmas and uses the plain set.
#if defined __x86_64__ && !defined __clang__
#define MORE_SETS
#pragma GCC push_options
#pragma GCC target("avx2")
#define SET(loop)    loop##_avx2
#define SET_NAME     "avx2"
#define VECTOR_BYTES 32
#include "daemon/loader/stage/transform_loops.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#define SET(loop)    loop##_avx512
#define SET_NAME     "avx512"
#define VECTOR_BYTES 64
#include "daemon/loader/stage/transform_loops.h"
#pragma GCC pop_options
#endif

const struct transform_kernels *transform_kernels(uint32_t index) {
    const struct transform_kernels *sets[3];
    uint32_t count = 0;
#ifdef MORE_SETS
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        sets[count++] = &set_avx512;
    if (__builtin_cpu_supports("avx2"))
        sets[count++] = &set_avx2;
#endif
    sets[count++] = &set_plain;
    return index < count ? sets[index] : NULL;
}
