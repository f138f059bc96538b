// The order of an epoch that goes through a dataset group by group: samples are shuffled within a window of a few
// groups, so that what is read together lies in few places. A pure function of its arguments, the same on every
// machine and in every version (a change is a new ORDER_WINDOW_* version, and tests/unit pins each version with
// golden vectors).
//
// Definition of ORDER_WINDOW_1. The groups 0..B-1 divide the samples 0..N-1 into runs of consecutive numbers.
//
// 1. Visit i of an epoch is group number p(i), where p is ORDER_FEISTEL_1 of B, the seed and the epoch
//    (order/order.h).
// 2. Visits kW to kW+W-1 are window k; the last window may have fewer. Its samples, n of them, are numbered from 0 as
//    they come: visit by visit, and within a group as they are stored. The positions of window k follow those of
//    window k-1.
// 3. At place j of window k stands its sample number q(j), where q is ORDER_FEISTEL_1 of n, the seed
//    splitmix64(splitmix64(seed) ^ k) (order/splitmix.h) and the epoch.
//
// So an epoch is a permutation, and the samples of a window come from at most W groups.
#ifndef FEEDD_ORDER_WINDOW_H
#define FEEDD_ORDER_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// Whoever follows the order keeps 12 bytes per group for each of two epochs.
#define WINDOW_MAX_GROUPS (1u << 17)

// Where the groups of a dataset lie, as processes share it.
struct window_groups {
    uint64_t window;   // W
    uint64_t count;    // groups
    uint64_t bounds[]; // count + 1 of them: group i has the samples from bounds[i] up to bounds[i + 1]
};

// Of that structure. `count` is at most WINDOW_MAX_GROUPS.
static inline size_t window_groups_bytes(uint64_t count) {
    return sizeof(struct window_groups) + (count + 1) * sizeof(uint64_t);
}

// Whether `bytes` bytes hold the groups of a dataset of `samples` samples: -EINVAL with a sentence if not.
int window_groups_check(const struct window_groups *groups, uint64_t bytes, uint64_t samples,
                        struct error *error);

struct window_order; // for one thread at a time

// Of the samples first..first+count-1 of the dataset, which are numbered from 0, in the groups that have any of them:
// so those at either end may be parts of groups. 1 <= count, and the samples lie in `groups`, which has been checked
// and must outlive the order. -ENOMEM.
int window_order_open(const struct window_groups *groups, uint64_t first, uint64_t count, uint64_t seed,
                      struct window_order **order);

// NULL is ignored.
void window_order_close(struct window_order *order);

// The samples at positions first..first+count-1 of the epoch; UINT64_MAX beyond its end. The first call of an epoch
// takes some 30 ns per group; two epochs are remembered.
void window_order_samples(struct window_order *order, uint64_t epoch, uint64_t first, uint32_t count,
                          uint64_t *samples);

#endif
