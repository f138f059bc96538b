#include "order/shares.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

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

// A weight times how often it counts: digits * 2^exponent.
struct product {
    unsigned __int128 digits; // up to 64 + 27 of them are used
    int32_t exponent;
};

// The exponent of the largest power of two that is not above the product, which is not 0.
static inline int32_t top_digit(const struct product *product) {
    const uint64_t high = (uint64_t)(product->digits >> 64), low = (uint64_t)product->digits;
    return product->exponent + (high ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll(low));
}

// floor(product * 2^exponent), which must fit.
static inline unsigned __int128 scaled(const struct product *product, int32_t exponent) {
    const int32_t shift = product->exponent + exponent;
    if (shift >= 0)
        return product->digits ? product->digits << shift : 0;
    return shift > -128 ? product->digits >> -shift : 0;
}

// Of weights that weight_decode has taken; `times` NULL: each counts once.
struct weights {
    struct float_form form;
    const uint64_t *words;
    const uint32_t *times;
};

static inline struct product product_at(const struct weights *weights, uint64_t i) {
    const struct weight weight = weights->form.fraction_bits ? unpack(weights->form, weights->words[i])
                                                             : (struct weight){.digits = weights->words[i]};
    return (struct product){(unsigned __int128)weight.digits * (weights->times ? weights->times[i] : 1),
                            weight.exponent};
}

// Where no weight counts more than once, the compiler leaves out what is only for `times`.
static inline __attribute__((always_inline)) int sum(const struct weights *weights, uint64_t *words,
                                                     uint64_t count) {
    int32_t largest = INT32_MIN;
    for (uint64_t i = 0; i < count; i++) {
        const struct product product = product_at(weights, i);
        if (product.digits && top_digit(&product) > largest)
            largest = top_digit(&product);
    }
    if (largest == INT32_MIN)
        return -ENODATA;
    unsigned __int128 total = 0; // at most SHARES_MOST times 2^(TOP + 1)
    for (uint64_t i = 0; i < count; i++) {
        const struct product product = product_at(weights, i);
        total += scaled(&product, TOP - largest);
    }
    const int32_t digits =
        128 - __builtin_clzll((uint64_t)(total >> 64)); // the largest alone reaches that half
    const int32_t exponent = TOP - largest - (digits - SUM_DIGITS);
    uint64_t shares = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct product product = product_at(weights, i);
        const uint64_t share = (uint64_t)scaled(&product, exponent);
        words[i] = shares += share ? share : product.digits != 0;
    }
    return 0;
}

int shares_sum(uint32_t dtype, uint64_t *words, uint64_t count) {
    const struct weights weights = {float_form(dtype), words, NULL};
    return sum(&weights, words, count);
}

int shares_sum_times(uint32_t dtype, uint64_t *words, const uint32_t *times, uint64_t count) {
    const struct weights weights = {float_form(dtype), words, times};
    return sum(&weights, words, count);
}
