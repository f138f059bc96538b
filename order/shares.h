// Weights as integers, so that all machines draw the same samples by them. A pure function of the weights; a change
// is a new version of order/draw.h.
//
// Every weight is exactly an integer times a power of two. With the largest weight in [2^m, 2^(m+1)), let T be the
// sum of floor(weight * 2^(99-m)) and d its number of binary digits. The share of a sample is
//
//     floor(weight * 2^(162-m-d)), but at least 1 if the weight is above 0
//
// Shares are exact, up to a common factor, for weights that are multiples of some power of two and whose sum is below
// 2^63 times that: integers with a sum below 2^63, say, or floats of similar size. The sum S of all shares lies
// between 2^62 - n and 2^63 + n for n samples. So the probability share / S differs from p = weight / (sum of the
// weights) by a fraction of at most n / 2^61 + 1 / (2^61 p): with 2^27 samples, by less than one in 10^9 where p is
// above 2^-30.
#ifndef FEEDD_ORDER_SHARES_H
#define FEEDD_ORDER_SHARES_H

#include <stdint.h>

#define SHARES_MOST (1u << 27) // samples

// A weight: digits * 2^exponent.
struct weight {
    uint64_t digits;
    int32_t exponent;
};

// The weight in the lowest bits of `bits`; those above are 0. -ENOTSUP for a dtype that is neither an integer nor a
// real number, -EDOM for what is not a number, -EOVERFLOW for infinities, -ERANGE below 0 (but -0.0 is 0). `weight` is
// untouched then.
int weight_decode(uint32_t dtype, uint64_t bits, struct weight *weight);

// Replaces weights, as for weight_decode, which must take each of them, by sums of shares: word i becomes the sum of
// shares 0 to i. 1 <= count <= SHARES_MOST. -ENODATA if all weights are 0; the words are untouched then.
int shares_sum(uint32_t dtype, uint64_t *words, uint64_t count);

// The same where weight i counts times[i] times, at most SHARES_MOST: "weight" above then means the exact product.
int shares_sum_times(uint32_t dtype, uint64_t *words, const uint32_t *times, uint64_t count);

#endif
