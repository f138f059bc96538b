// The room of a feed's slots with ragged fields: where each batch's values lie, and more memory for a slot when a batch
// needs more than most do.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_GROWTH_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_GROWTH_H

#include "base/error.h"

struct batch_places;
struct served_feed;

// Prepares feed->fill for a ring of which `slot_allocated_bytes` of each slot are allocated. Takes over `places`, also
// on failure. Without ragged fields, which have places, there is nothing to do, then or later.
int growth_open(struct served_feed *feed, uint64_t slot_allocated_bytes, struct batch_places *places,
                struct error *error);
// After the feed's delivery, when it is not busy.
void growth_close(struct served_feed *feed);

// A thread is allocating.
bool growth_is_busy(const struct served_feed *feed);

// Acts on what it has done: the slot has its memory, or the feed fails. In the feed's turn.
void growth_act(struct served_feed *feed);

#endif
