// Joining and leaving a delivery: where a consumer begins, how much it may hold, what becomes of what it held.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_JOIN_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_JOIN_H

#include "base/error.h"
#include "base/scope.h"
#include "daemon/supervisor/delivery/types.h"

// Where a consumer wants to begin.
struct start_position {
    bool given; // false: where the lane is
    // The lane may go back to it even if others have moved on. They wait until the newcomer has caught up.
    bool goes_back;
    uint64_t epoch;
    uint64_t consumed;
};

// Puts a consumer of `rank` on its lane, due the batches of epochs below `epochs` (0: all). prefetch: what it
// asks for, 0 to let the feed choose; consumer->prefetch is what it gets.
// -ENOSPC: more ranks than lane_limit. -ESTALE: this run cannot go to `start` (the error says why).
int delivery_join(struct delivery *delivery, struct consumer *consumer, uint32_t rank, uint64_t epochs,
                  const struct start_position *start, uint32_t prefetch, struct error *error);
void delivery_leave(struct delivery *delivery, struct consumer *consumer);

// ---- For fillers that take batches from another delivery ---------------------------------------------------

// Where a consumer of that rank begins that does not ask for a position.
uint64_t join_usual_start(const struct delivery *delivery, uint64_t rank);

// Puts a consumer on a lane at a batch that lane_can_begin has allowed, due batches below `end`.
int join_at(struct delivery *delivery, struct consumer *consumer, uint64_t rank, uint64_t sequence,
            uint64_t end, uint32_t prefetch, struct error *error) MUST_CHECK;

#endif
