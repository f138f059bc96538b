// Between the files of delivery: slots, and the windows of lanes.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_WINDOW_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_WINDOW_H

#include "base/error.h"
#include "base/scope.h"
#include "daemon/supervisor/delivery/delivery.h"

void slot_free(struct delivery *delivery, uint32_t slot);
void slot_free_if_unused(struct delivery *delivery, uint32_t slot);

// The slot of batch lane->base + index.
uint32_t window_at(const struct delivery *delivery, const struct lane *lane, uint32_t index);

// The first batch leaves the window: granted to everybody, or no longer wanted.
void window_pop(struct delivery *delivery, struct lane *lane);

// Lets go of what everybody has been granted.
void window_trim(struct delivery *delivery, struct lane *lane);

// A place in a lane by number, for those who have found out that it can be had: see delivery_join.
int lane_join(struct delivery *delivery, struct consumer *consumer, uint64_t rank, uint64_t sequence,
              uint64_t end, uint32_t prefetch, struct error *error);
// Whether a consumer can begin at that batch: nobody is there who has gone on from it.
bool lane_can_begin(const struct lane *lane, uint64_t sequence);
struct lane *lane_find(const struct delivery *delivery, uint64_t rank);

// Changes up to where a consumer is due batches.
void lane_set_end(struct delivery *delivery, struct consumer *consumer, uint64_t end);
// It wants none below that one; it has been granted none from there on.
void lane_skip(struct delivery *delivery, struct consumer *consumer, uint64_t sequence);

// ---- Taps: delivery_tap.c ----------------------------------------------------------------------------------

// Lets a pool's lane, sought to `sequence`, take its batches below `end` from the source: behind what is left in its
// window where the source can still go there, else the window is given up.
int tap_join(struct delivery *pool, struct lane *lane, uint64_t sequence, uint64_t end, struct error *error);
void tap_leave(struct delivery *pool, struct lane *lane);
// The lane goes on further ahead: nobody there wants what lies between.
void tap_follow(struct delivery *pool, struct lane *lane);

// The lane's next batch is complete in the source.
bool tap_ready(const struct lane *lane);

// Dispatches that batch into a free slot of the pool; false: the pool's queue is full.
bool tap_dispatch(struct delivery *pool, struct lane *lane, uint32_t slot) MUST_CHECK;

// The copy into this slot is over: the source may have its slot back.
void tap_copied(struct delivery *pool, uint32_t slot);

// No slot can be given out to this lane before one is released.
bool lane_full(const struct delivery *delivery, const struct lane *lane);

static inline uint32_t lane_quota(const struct delivery *delivery) {
    return delivery->ring->header->slot_count / delivery->lane_limit;
}

static inline bool consumer_holds(const struct consumer *consumer, uint32_t slot) {
    return consumer->held[slot / 64] >> (slot % 64) & 1;
}

#endif
