#include "order/shares.h"

#include <errno.h>
#include <stdbool.h>

#include "base/dtype.h"

// The largest weight is scaled to TOP + 1 binary digits, and the sum, by whole digits, to SUM_DIGITS.
#define TOP        99
#define SUM_DIGITS 63

struct float_form {
    uint32_t fraction_bits;
    uint32_t exponent_bits;
};

static struct float_form float_form(uint32_t dtype) {
    switch (dtype) {
    case DTYPE_F16:
        return (struct float_form){10, 5};
    case DTYPE_BF16:
        return (struct float_form){7, 8};
    case DTYPE_F32:
        return (struct float_form){23, 8};
    case DTYPE_F64:
        return (struct float_form){52, 11};
    default:
        return (struct float_form){0};
    }
}

// Of a float that is not below 0, and neither infinite nor no number; -0.0 is 0.
static inline struct weight unpack(struct float_form form, uint64_t bits) {
    const uint32_t exponent = (uint32_t)(bits >> form.fraction_bits) & ((1u << form.exponent_bits) - 1);
    const int32_t bias = (int32_t)((1u << form.exponent_bits) - 1) / 2 + (int32_t)form.fraction_bits;
    // Those below the smallest power of two have no leading digit of 1, and the exponent of those above.
    const uint64_t leading = (uint64_t)(exponent > 0) << form.fraction_bits;
    return (struct weight){.digits = (bits & ((UINT64_C(1) << form.fraction_bits) - 1)) | leading,
                           .exponent = (int32_t)(exponent ? exponent : 1) - bias};
}

static int decode_float(struct float_form form, uint64_t bits, struct weight *weight) {
    const uint64_t sign = UINT64_C(1) << (form.fraction_bits + form.exponent_bits);
    const uint64_t infinity = sign - (UINT64_C(1) << form.fraction_bits), size = bits & (sign - 1);
    if (size >= infinity)
        return size > infinity ? -EDOM : -EOVERFLOW;
    if (bits & sign && size)
        return -ERANGE;
    *weight = unpack(form, bits);
    return 0;
}

int weight_decode(uint32_t dtype, uint64_t bits, struct weight *weight) {
    const struct float_form form = float_form(dtype);
    if (form.fraction_bits)
        return decode_float(form, bits, weight);
    if (dtype < DTYPE_U8 || dtype > DTYPE_I64)
        return -ENOTSUP;
    const bool is_signed =
        dtype == DTYPE_I8 || dtype == DTYPE_I16 || dtype == DTYPE_I32 || dtype == DTYPE_I64;
    if (is_signed && bits >> (8 * dtype_bytes(dtype) - 1))
        return -ERANGE;
    *weight = (struct weight){.digits = bits};
    return 0;
}

// The exponent of the largest power of two that is not above the weight, which is not 0.
static inline int32_t top_digit(const struct weight *weight) {
    return weight->exponent + 63 - __builtin_clzll(weight->digits);
}

// floor(weight * 2^exponent), which must fit.
static inline unsigned __int128 scaled(const struct weight *weight, int32_t exponent) {
    const int32_t shift = weight->exponent + exponent;
    if (shift >= 0)
        return weight->digits ? (unsigned __int128)weight->digits << shift : 0;
    return shift > -64 ? weight->digits >> -shift : 0;
}

// One that weight_decode has taken.
static inline struct weight weight_of(struct float_form form, uint64_t bits) {
    return form.fraction_bits ? unpack(form, bits) : (struct weight){.digits = bits};
}

int shares_sum(uint32_t dtype, uint64_t *words, uint64_t count) {
    const struct float_form form = float_form(dtype);
    int32_t largest = INT32_MIN;
    for (uint64_t i = 0; i < count; i++) {
        const struct weight weight = weight_of(form, words[i]);
        if (weight.digits && top_digit(&weight) > largest)
            largest = top_digit(&weight);
    }
    if (largest == INT32_MIN)
        return -ENODATA;
    unsigned __int128 sum = 0; // at most SHARES_MOST times 2^(TOP + 1)
    for (uint64_t i = 0; i < count; i++) {
        const struct weight weight = weight_of(form, words[i]);
        sum += scaled(&weight, TOP - largest);
    }
    const int32_t digits =
        128 - __builtin_clzll((uint64_t)(sum >> 64)); // the largest alone reaches that half
    const int32_t exponent = TOP - largest - (digits - SUM_DIGITS);
    uint64_t shares = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct weight weight = weight_of(form, words[i]);
        const uint64_t share = (uint64_t)scaled(&weight, exponent);
        words[i] = shares += share ? share : weight.digits != 0;
    }
    return 0;
}
