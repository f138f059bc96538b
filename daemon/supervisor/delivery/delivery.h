// Which batch goes into which slot, and which consumer gets it when: the bookkeeping of one feed, without sockets or
// processes. Owned by the supervisor's one thread. This is the header for the rest of the supervisor; what opens a
// delivery also includes the header of its filler.
//
// A feed has a lane for each rank that is attached here. A lane dispatches the rank's batches in order into free slots;
// a filler (filler.h) fills them in any order; consumers of the lane are granted them in order. A slot is free again
// when every consumer that was due its batch has released it.
//
// A device pool has a delivery of its own, for slots on a GPU. Its filler is a tap on the delivery of the feed's
// ring (fill_tap.h).
//
// Files call downwards only, and upwards through the filler's table:
//
//   fill_loaders.c  fill_tap.c   where batches come from
//   delivery.c  join.c           moving batches; where consumers begin, and how they leave
//   wait_cause.c                 what a consumer waits for
//   abandoned.c                  slots whose batch is not wanted there any more
//   lane.c                       where a rank is
//   window.c                     slots, and which batch is in which
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_DELIVERY_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_DELIVERY_H

#include "base/scope.h"
#include "daemon/supervisor/delivery/join.h"
#include "daemon/supervisor/delivery/types.h"

// The filler must outlive the delivery. Of the ring's slots, the first `slots` are there already. -ENOMEM.
int delivery_open(struct delivery *delivery, struct ring *ring, const struct partition *partition,
                  uint32_t lane_limit, const struct filler *filler, uint32_t slots) MUST_CHECK;
void delivery_close(struct delivery *delivery);

// `count` more of the ring's slots have been allocated.
void delivery_add_slots(struct delivery *delivery, uint32_t count);

// Begins another run in the same ring; no consumer may be attached.
void delivery_restart(struct delivery *delivery, const struct partition *partition);

// Looks for finished batches and gives free slots out again, as many as do not take long: `behind` says that there are
// more. -EIO: a chunk failed; see ring_control.failure. -EBADMSG: what loaders wrote into the ring cannot be.
int delivery_pump(struct delivery *delivery);

// Takes the next batches a consumer may have now: their slots, in order from *sequence. Returns how many.
uint32_t delivery_grant(struct delivery *delivery, struct consumer *consumer, uint64_t *sequence,
                        uint32_t *slots, uint32_t most);

// -EINVAL: it does not hold that slot.
int delivery_release(struct delivery *delivery, struct consumer *consumer, uint32_t slot);

// A batch has been dispatched and was not complete at the last pump.
bool delivery_is_filling(const struct delivery *delivery);

// The earliest batch that a consumer keeps in the ring; it must hold one.
uint64_t delivery_oldest_held(const struct delivery *delivery, const struct consumer *consumer);

// Somebody waits for this consumer to release what it holds: another consumer of its lane, or one that gets the same
// batches in another place.
bool delivery_holds_up(const struct delivery *delivery, const struct consumer *consumer);

#endif
