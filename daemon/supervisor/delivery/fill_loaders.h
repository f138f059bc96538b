// The filler of a feed's ring: loader processes read each batch from storage, in chunks that they claim in the ring.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_FILL_LOADERS_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_FILL_LOADERS_H

#include "daemon/supervisor/delivery/filler.h"

struct loaders_fill;
struct ring_batch;

struct loaders_fill_events {
    // A batch is about to be dispatched: puts a free slot that it fits into last, where window_next_slot finds it, and
    // writes the places of its ragged fields (ring_own_places). False: there is none now; the next pump tries again.
    bool (*choose)(struct loaders_fill *fill, struct delivery *delivery, const struct batch_place *place);
    // See filler_operations.mend.
    int (*mend)(struct loaders_fill *fill, struct delivery *delivery, uint32_t slot,
                const struct ring_batch *name, const struct batch_place *place);
};

struct loaders_fill {
    struct filler filler;
    const struct loaders_fill_events *events; // NULL: every batch fits every slot
};

void loaders_fill_init(struct loaders_fill *fill, const struct loaders_fill_events *events);

#endif
