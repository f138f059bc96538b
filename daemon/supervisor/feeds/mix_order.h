// Which samples of which sources stand at the positions of a mix, for the supervisor, which has to know their sizes.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_MIX_ORDER_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_MIX_ORDER_H

#include "daemon/supervisor/feeds/attach_request.h"
#include "order/mix_samples.h"

struct mix_order;

// For at most `most` positions at a time. The shape's dataset, which is a mix, must outlive it. May take some ten
// milliseconds, so not on the loop.
int mix_order_open(const struct feed_shape *shape, uint32_t most, struct mix_order **made,
                   struct error *error);
// NULL is fine.
void mix_order_close(struct mix_order *order);

// Of `count` positions of an epoch: the stored sample of its source that stands there, UINT64_MAX for none, and in
// draws[i].source that source.
const struct mix_draw *mix_order_samples(struct mix_order *order, uint64_t epoch, uint64_t first,
                                         uint32_t count, uint64_t *samples);

// The stored sample of the same source that takes the place of the one at a position, in this attempt
// (order/replace.h). UINT64_MAX for none.
uint64_t mix_order_replacement(struct mix_order *order, uint64_t epoch, uint64_t position, uint32_t attempt);

#endif
