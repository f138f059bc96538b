// Between the files of delivery: slots, and the windows of lanes.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_WINDOW_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_WINDOW_H

#include "daemon/supervisor/delivery.h"

void slot_free(struct delivery *delivery, uint32_t slot);
void slot_free_if_unused(struct delivery *delivery, uint32_t slot);

// The slot of batch lane->base + index.
uint32_t window_at(const struct delivery *delivery, const struct lane *lane, uint32_t index);

// The first batch leaves the window: granted to everybody, or no longer wanted.
void window_pop(struct delivery *delivery, struct lane *lane);

// Lets go of what everybody has been granted.
void window_trim(struct delivery *delivery, struct lane *lane);

static inline uint32_t lane_quota(const struct delivery *delivery) {
    return delivery->ring->header->slot_count / delivery->lane_limit;
}

static inline bool consumer_holds(const struct consumer *consumer, uint32_t slot) {
    return consumer->held[slot / 64] >> (slot % 64) & 1;
}

#endif
