// The filler of a device pool: a tap on the delivery of the feed's ring, its source.
//
// Each lane of the pool has a place on the source's lane of the same rank, which takes the rank's batches in order like
// a consumer, and holds none. A batch is dispatched into the pool when it is complete in the source; while the transfer
// process copies it, the source's slot is kept.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_FILL_TAP_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_FILL_TAP_H

#include "daemon/supervisor/delivery/filler.h"

// About a slot of the pool.
struct tap_slot {
    // Consumers that were granted what is in it, or what was in it last: 1 << consumer.bit.
    uint64_t holders;
    uint32_t source; // while it is FILLING: the source's slot
};

// What a lane of the pool has in the source; in lane->filling while there are consumers on the lane.
struct tap_lane {
    struct consumer consumer;
    const struct delivery *pool;
    const struct lane *lane; // of the pool
};

struct tap;

struct tap_events {
    // A batch that takes so many bytes in a slot is about to be dispatched: puts a free slot that is large enough last,
    // where window_next_slot finds it. False: there is none now; the next pump tries again.
    bool (*choose)(struct tap *tap, struct delivery *pool, uint64_t bytes);
};

struct tap {
    struct filler filler;
    const struct tap_events *events; // NULL: every batch fits every slot
    struct delivery *source;
    struct tap_slot *slots;
};

// The filler for delivery_open. The source must be open, and be closed after the pool's delivery.
const struct filler *tap_open(struct tap *tap, struct delivery *source);

// The tap of a delivery that was opened with one, and what a lane of it has in the source: NULL if it takes nothing.
static inline struct tap *tap_of(const struct delivery *pool) {
    return CONTAINER_OF(pool->filler, struct tap, filler);
}
static inline struct tap_lane *tap_lane_of(const struct lane *lane) {
    return lane->filling;
}

// Somebody waits for copies that cannot be made before this consumer's stream has released what was in their slots.
bool tap_stalls(const struct delivery *pool, const struct consumer *consumer);

#endif
