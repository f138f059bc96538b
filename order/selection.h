// Which samples of a dataset a view has, and in which order it numbers them. A pure function of its arguments, the same
// on every machine and in every version (a change is a new SELECTION_* kind, and tests/unit pins each kind with golden
// vectors).
#ifndef FEEDD_ORDER_SELECTION_H
#define FEEDD_ORDER_SELECTION_H

#include "order/draw.h"
#include "order/order.h"

enum selection_kind {
    SELECTION_ALL = 0,   // sample i of the view is sample i of the dataset
    SELECTION_RANGE = 1, // ... first + i
    // ... what stands at position first + i of a permutation of the dataset: ORDER_FEISTEL_1 of `seed` and
    // SELECTION_EPOCH. So views with one seed whose ranges do not overlap have no sample in common, and those whose
    // ranges cover the dataset have every sample.
    SELECTION_SPLIT_1 = 2,
    // ... number i of a list, which may name a sample more than once
    SELECTION_LIST = 3,
    // ... number i of the draws by weight that make up an epoch (order/draw.h, version 1), which depend on the run's
    // seed and on the epoch
    SELECTION_WEIGHTED_1 = 4,
};

// No run reaches this epoch, so a split is never the order of an epoch.
#define SELECTION_EPOCH UINT64_MAX

// Plain data without pointers; zeros select all.
struct selection {
    uint32_t kind; // enum selection_kind
    uint32_t reserved;
    uint64_t of;    // samples of the dataset
    uint64_t first; // of the range; first + count <= of. Else 0
    uint64_t count; // samples of the view
    // Of a split. Of a list: XXH3-64 of its numbers, or of the sums of shares (order/shares.h) of a
    // SELECTION_WEIGHTED_1, 8 bytes each, little-endian. Else 0.
    uint64_t seed;
};

// A bound of a range: that many millionths of the samples, rounded down. Adjacent parts have the same
// bound, whatever the number of samples.
#define SELECTION_WHOLE 1000000u
static inline uint64_t selection_bound(uint64_t of, uint32_t millionths) {
    return (uint64_t)((unsigned __int128)of * millionths / SELECTION_WHOLE);
}

// A selection that is ready for use.
struct selector {
    struct selection selection;
    struct order split;
    const uint64_t *list;
    struct draw_table draws;
};

// Of the memory with what is not in struct selection: of a SELECTION_LIST, `count` numbers, each below `of`; of a
// SELECTION_WEIGHTED_1, the table of `of` samples as draw_prepare leaves it. 0 for other kinds.
size_t selection_list_bytes(const struct selection *selection);

// `list` is that memory, and must outlive the selector. It is NULL for other kinds.
void selector_init(struct selector *selector, const struct selection *selection, const uint64_t *list);

// Replaces sample numbers of the view by those of the dataset, in an epoch of a run with that seed, on which only draws
// depend. A number outside the view becomes UINT64_MAX.
void selector_map(const struct selector *selector, uint64_t seed, uint64_t epoch, uint64_t *samples,
                  uint32_t count);

#endif
