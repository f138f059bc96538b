// Which samples of a dataset stand at which positions of a run: its order, and the samples of the view that it reads.
#ifndef FEEDD_ORDER_SAMPLER_H
#define FEEDD_ORDER_SAMPLER_H

#include <stdbool.h>

#include "base/error.h"
#include "order/order.h"
#include "order/selection.h"
#include "order/window.h"

// For one thread.
struct sampler {
    enum order_version version;
    uint64_t samples; // of an epoch
    uint64_t seed;
    struct selector selector;
    struct window_order *window; // of ORDER_WINDOW_1; NULL for others
    struct order orders[2];      // of the two latest epochs, indexed by the epoch's lowest bit
    uint64_t epochs[2];
    bool known[2];
};

// `samples` >= 1 are those of the selection. `list` is as for selector_init, but with ORDER_WINDOW_1, which only goes
// with a SELECTION_ALL or SELECTION_RANGE, it is a struct window_groups of `list_bytes` bytes with the groups of the
// dataset. 0, or a negative errno with a sentence; nothing is to be closed then.
int sampler_open(struct sampler *sampler, enum order_version version, uint64_t samples, uint64_t seed,
                 const struct selection *selection, const uint64_t *list, uint64_t list_bytes,
                 struct error *error);
void sampler_close(struct sampler *sampler);

// The samples of the dataset at positions first..first+count-1 of the epoch; UINT64_MAX beyond its end.
void sampler_samples(struct sampler *sampler, uint64_t epoch, uint64_t first, uint32_t count,
                     uint64_t *samples);

// The sample that this attempt takes for the one at that position (order/replace.h).
uint64_t sampler_replacement(const struct sampler *sampler, uint64_t epoch, uint64_t position,
                             uint32_t attempt);

#endif
