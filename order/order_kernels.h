// The rounds of the permutation of order.h: of one value, or of several at once, once per instruction set that makes
// that faster. All yield the same values. What lands outside of the epoch walks on elsewhere.
#ifndef FEEDD_ORDER_ORDER_KERNELS_H
#define FEEDD_ORDER_ORDER_KERNELS_H

#include "order/order.h"

#define ORDER_LANES_MOST 64u

struct order_kernel {
    const char *name;
    uint32_t lanes; // a power of two, ORDER_LANES_MOST at most
    // Replaces `lanes` values of the domain.
    void (*permute)(const struct order *order, uint64_t *values);
};

// The fastest first; NULL after the last one that this processor can run.
const struct order_kernel *order_kernel(uint32_t index);

// The one that every processor can run: the last one, and the one with the fewest lanes.
const struct order_kernel *order_kernel_plain(void);

uint64_t order_permute(const struct order *order, uint64_t value);

#endif
