// What transforms are to make, the slow way: one element after another, conversions by arithmetic instead of bits.
#ifndef FEEDD_TESTS_UNIT_TRANSFORM_REFERENCE_H
#define FEEDD_TESTS_UNIT_TRANSFORM_REFERENCE_H

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "daemon/dataset/transform.h"

#define REFERENCE_MOST (1u << 17) // elements of a sample

static inline float reference_from_narrow(uint32_t bits, int exponent_bits, int fraction_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1,
        exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    uint32_t fraction = bits & ((1u << fraction_bits) - 1);
    double value = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                 : ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
    if (exponent == (1 << exponent_bits) - 1)
        value = fraction ? NAN : INFINITY;
    return (float)(bits & 0x8000u ? -value : value);
}

static inline float reference_from_f16(uint32_t bits) {
    return reference_from_narrow(bits, 5, 10);
}

static inline float reference_from_bf16(uint32_t bits) {
    return reference_from_narrow(bits, 8, 7);
}

static inline uint16_t reference_to_narrow(float value, int exponent_bits, int fraction_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, most = (1 << exponent_bits) - 1;
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs((double)value);
    if (isnan(value))
        return (uint16_t)(sign | ((1 << (exponent_bits + fraction_bits)) - 1));
    if (isinf(value))
        return (uint16_t)(sign | most << fraction_bits);
    if (size == 0)
        return sign;
    int exponent = ilogb(size) < 1 - bias ? 1 - bias : ilogb(size);
    // In units of the last place; to the nearest, ties to even. All of it is exact in float64.
    long units = (long)nearbyint(ldexp(size, fraction_bits - exponent));
    long bits =
        ((long)(exponent + bias - 1) << fraction_bits) + units; // the implied 1 counts in the exponent
    if (bits > (long)most << fraction_bits)
        bits = (long)most << fraction_bits;
    return (uint16_t)(sign | bits);
}

#define REFERENCE_AS(type)                                                                                   \
    ({                                                                                                       \
        type value_as;                                                                                       \
        memcpy(&value_as, at, sizeof value_as);                                                              \
        value_as;                                                                                            \
    })

static inline float reference_load(uint32_t dtype, const uint8_t *at) {
    switch (dtype) {
    case DTYPE_BOOL:
    case DTYPE_U8:
        return REFERENCE_AS(uint8_t);
    case DTYPE_I8:
        return REFERENCE_AS(int8_t);
    case DTYPE_U16:
        return REFERENCE_AS(uint16_t);
    case DTYPE_I16:
        return REFERENCE_AS(int16_t);
    case DTYPE_U32:
        return (float)REFERENCE_AS(uint32_t);
    case DTYPE_I32:
        return (float)REFERENCE_AS(int32_t);
    case DTYPE_U64:
        return (float)REFERENCE_AS(uint64_t);
    case DTYPE_I64:
        return (float)REFERENCE_AS(int64_t);
    case DTYPE_F16:
        return reference_from_f16(REFERENCE_AS(uint16_t));
    case DTYPE_BF16:
        return reference_from_bf16(REFERENCE_AS(uint16_t));
    case DTYPE_F64:
        return (float)REFERENCE_AS(double);
    default:
        return REFERENCE_AS(float);
    }
}

static inline double reference_sum(const double *values, uint64_t count) {
    double sum = 0;
    for (uint32_t lane = 0; lane < TRANSFORM_LANES; lane++) {
        volatile double lane_sum = 0;
        for (uint64_t i = lane; i < count; i += TRANSFORM_LANES)
            lane_sum = lane_sum + values[i];
        sum += lane_sum;
    }
    return sum;
}

static inline void reference_standardise(float *x, uint64_t count) {
    static double values[REFERENCE_MOST];
    for (uint64_t i = 0; i < count; i++)
        values[i] = (double)x[i];
    double mean = reference_sum(values, count) / (double)count;
    for (uint64_t i = 0; i < count; i++) {
        volatile double off = values[i] - mean;
        values[i] = off * off;
    }
    float deviation = (float)sqrt(reference_sum(values, count) / (double)count);
    for (uint64_t i = 0; i < count; i++) {
        volatile float off = x[i] - (float)mean;
        x[i] = deviation == 0 ? 0 : off / deviation;
    }
}

static inline float reference_step(const struct transform_step *step, float x, uint64_t channel) {
    float value = step->values[step->count == 1 ? 0 : channel];
    volatile float result = step->kind == TRANSFORM_SCALE   ? x * value
                            : step->kind == TRANSFORM_SHIFT ? x + value
                            : step->kind == TRANSFORM_MEAN  ? x - value
                                                            : x / value;
    return result;
}

// What is stored, exactly: a long double has the digits of every integer.
static inline long double reference_exact(uint32_t dtype, const uint8_t *at) {
    switch (dtype) {
    case DTYPE_U64:
        return REFERENCE_AS(uint64_t);
    case DTYPE_I64:
        return REFERENCE_AS(int64_t);
    case DTYPE_U32:
        return REFERENCE_AS(uint32_t);
    case DTYPE_I32:
        return REFERENCE_AS(int32_t);
    case DTYPE_F64:
        return REFERENCE_AS(double);
    default:
        return (long double)reference_load(dtype, at);
    }
}

static inline void reference_to_whole(uint32_t dtype, long double value, uint8_t *to) {
    const bool is_signed =
        dtype == DTYPE_I8 || dtype == DTYPE_I16 || dtype == DTYPE_I32 || dtype == DTYPE_I64;
    const size_t bytes = dtype_bytes(dtype);
    const long double most = ldexpl(1, (int)(8 * bytes) - is_signed) - 1, least = is_signed ? -most - 1 : 0;
    long double rounded = isnan(value) ? 0 : nearbyintl(value);
    rounded = rounded > most ? most : rounded < least ? least : rounded;
    const uint64_t bits = rounded < 0 ? (uint64_t)(int64_t)rounded : (uint64_t)rounded;
    memcpy(to, &bits, bytes); // little-endian
}

static inline void reference_store(const struct transform *transform, float x, const uint8_t *stored,
                                   uint8_t *to) {
    uint16_t narrow =
        transform->target == DTYPE_F16 ? reference_to_narrow(x, 5, 10) : reference_to_narrow(x, 8, 7);
    if (transform->step_count == 0 && transform->target == transform->stored)
        memcpy(to, stored, dtype_bytes(transform->target));
    else if (transform->target == DTYPE_F32)
        memcpy(to, &x, 4);
    else if (transform->target == DTYPE_F16 || transform->target == DTYPE_BF16)
        memcpy(to, &narrow, 2);
    else
        reference_to_whole(
            transform->target,
            transform->step_count ? (long double)x : reference_exact(transform->stored, stored), to);
}

// Where element i goes.
static inline uint64_t reference_place(const struct transform *transform, uint64_t i) {
    const uint64_t size = transform->elements / transform->channels;
    if (!transform->layout || transform->layout == transform->arrangement)
        return i;
    return transform->layout == TRANSFORM_CHW ? i % transform->channels * size + i / transform->channels
                                              : i % size * transform->channels + i / size;
}

static inline uint64_t reference_channel(const struct transform *transform, uint64_t i) {
    return transform->arrangement == TRANSFORM_HWC ? i % transform->channels
                                                   : i / (transform->elements / transform->channels);
}

static inline void reference_sample(const struct transform *transform, const uint8_t *stored,
                                    uint8_t *delivered) {
    const uint64_t count = transform->elements;
    const size_t in = dtype_bytes(transform->stored), out = dtype_bytes(transform->target);
    static float x[REFERENCE_MOST];
    for (uint64_t i = 0; i < count; i++)
        x[i] = reference_load(transform->stored, stored + i * in);
    for (uint32_t k = 0; k < transform->step_count; k++) {
        const struct transform_step *step = &transform->steps[k];
        if (step->kind == TRANSFORM_STANDARDISE)
            reference_standardise(x, count);
        for (uint64_t i = 0; i < count && step->kind != TRANSFORM_STANDARDISE; i++)
            x[i] = reference_step(step, x[i], reference_channel(transform, i));
    }
    for (uint64_t i = 0; i < count; i++)
        reference_store(transform, x[i], stored + i * in, delivered + reference_place(transform, i) * out);
}

#endif
