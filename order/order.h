// The order of samples: which sample stands at which position of which epoch. A pure function of its arguments, the
// same on every machine and in every version (a change is a new ORDER_* version, and tests/unit pins each version with
// golden vectors).
#ifndef FEEDD_ORDER_ORDER_H
#define FEEDD_ORDER_ORDER_H

#include <stdint.h>

enum order_version {
    ORDER_SEQUENTIAL = 0, // position p is sample p
    ORDER_FEISTEL_1 = 1,  // keyed Feistel network with cycle walking
    ORDER_WINDOW_1 = 2,   // group by group, shuffled within windows: order/window.h, not what follows here
};

// One epoch's permutation of 0..samples-1. Plain data; copy it freely.
struct order {
    uint64_t samples;
    enum order_version version;
    uint32_t left_bits;
    uint32_t right_bits;
    uint64_t keys[12]; // one a round
};

// `samples` >= 1. Any seed, any epoch.
void order_init(struct order *order, enum order_version version, uint64_t samples, uint64_t seed,
                uint64_t epoch);

// The sample at `position`; UINT64_MAX, which is not a sample, for a position >= samples. O(1) memory; a few
// dozen nanoseconds.
uint64_t order_sample(const struct order *order, uint64_t position);

// order_sample for positions first..first+count-1, computed side by side and several times faster. The cost
// is highest, twice the lowest, just above a power of two, and grows below 128 samples.
void order_samples(const struct order *order, uint64_t first, uint32_t count, uint64_t *samples);

// The same for any positions, which are replaced by their samples.
void order_gather(const struct order *order, uint32_t count, uint64_t *positions);

#endif
