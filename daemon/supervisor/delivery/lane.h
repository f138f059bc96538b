// Lanes: one per rank. Where a lane is, where it can go, up to where its consumers want it, and whether it is stuck.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_LANE_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_LANE_H

#include "base/error.h"
#include "base/scope.h"
#include "daemon/supervisor/delivery/types.h"

// NULL: there is none.
struct lane *lane_find(const struct delivery *delivery, uint64_t rank);

// Makes it if there is none. -ENOSPC: all lanes are in use.
int lane_get(struct delivery *delivery, uint64_t rank, struct lane **lane, struct error *error) MUST_CHECK;

// Nobody may be on it.
void lane_remove(struct delivery *delivery, struct lane *lane);

// ---- Where it is -------------------------------------------------------------------------------------------

// Lets a lane without consumers begin at that batch; keeps what it has of it and of the ones that follow.
void lane_seek(struct delivery *delivery, struct lane *lane, uint64_t sequence);

// Goes to a batch before the window, for a consumer that comes with an earlier token. Batches that were granted stay
// where they are; the consumers that have had them wait until the lane is where they are again.
void lane_rewind(struct delivery *delivery, struct lane *lane, uint64_t sequence);

// Drops from the window what everybody has been granted.
void lane_trim(struct delivery *delivery, struct lane *lane);

// Nobody is on it. The lane may be NULL.
static inline bool lane_is_deserted(const struct lane *lane) {
    return !lane || LIST_EMPTY(&lane->consumers);
}

// Nobody has been granted anything since joining, so the lane can still go anywhere.
bool lane_untouched(const struct lane *lane);

// The first batch that somebody on the lane, or somebody for whom a consumer of it takes batches, has yet to be
// granted. Batches are taken for others before these ask for them.
uint64_t lane_start(const struct lane *lane);

// A consumer can begin at that batch: nobody has moved on from it. The lane may be NULL.
bool lane_can_begin(const struct lane *lane, uint64_t sequence);

// ---- What its consumers want -------------------------------------------------------------------------------

// Takes back a consumer's claim to the batches in the window that it has not been granted.
void lane_unclaim(struct delivery *delivery, struct lane *lane, const struct consumer *consumer);

// The furthest batch that a consumer is due may be another one: one has left, or changed its mind.
void lane_follow_end(struct delivery *delivery, struct lane *lane);

// Changes up to where a consumer is due batches.
void lane_set_end(struct delivery *delivery, struct consumer *consumer, uint64_t end);

// The consumer wants no batch below that one, and has been granted none from there on.
void lane_skip(struct delivery *delivery, struct consumer *consumer, uint64_t sequence);

// ---- Whether it is stuck -----------------------------------------------------------------------------------

static inline uint32_t lane_quota(const struct delivery *delivery) {
    return delivery->ring->header->slot_count / delivery->lane_limit;
}

// Slots of the ring are still being allocated, so there will be free ones even if nobody releases any.
static inline bool slots_are_coming(const struct delivery *delivery) {
    return delivery->slot_count < delivery->ring->header->slot_count;
}

// No slot can be given to this lane before one is released or allocated.
bool lane_full(const struct delivery *delivery, const struct lane *lane);

// A consumer other than `except`, which may be NULL, waits for the batch that is dispatched next, or a later one.
bool lane_starves(const struct lane *lane, const struct consumer *except);

#endif
