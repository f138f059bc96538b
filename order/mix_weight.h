// The weights of a mixture, as people write them, and as the whole numbers that order/mix.h takes.
#ifndef FEEDD_ORDER_MIX_WEIGHT_H
#define FEEDD_ORDER_MIX_WEIGHT_H

#include "base/error.h"

// The most significant digits, and the largest exponent of ten, up or down, of a weight.
#define MIX_WEIGHT_DIGITS   18
#define MIX_WEIGHT_EXPONENT 1000

// Exactly digits * 10^exponent. `digits` is positive and no multiple of ten.
struct mix_weight {
    uint64_t digits;
    int32_t exponent;
};

// Takes a positive decimal number: digits, perhaps with a point among them, before or after them, then perhaps `e` or
// `E` and an exponent, perhaps with a sign. "3", "0.25", "1e-3". -EINVAL, with a sentence, for other text and for
// zero, -ERANGE, with a sentence, beyond the limits above; `weight` is untouched then.
int mix_weight_parse(const char *text, struct mix_weight *weight, struct error *error);

// The smallest whole numbers that have the same ratio, in the same order. -EINVAL, with a sentence, for a count
// outside 1..MIX_MAX_SOURCES, -ERANGE, with a sentence, if their total is above MIX_MAX_TOTAL; `whole` is untouched
// then.
int mix_weights_scale(const struct mix_weight *weights, uint32_t count, uint32_t *whole, struct error *error);

#endif
