// What happens to a feed once per turn of the loop, and on every tick.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_TURN_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_TURN_H

#include "daemon/supervisor/feeds/served_feed.h"

// The turn of a marked feed: loaders that died, clients that wait, batches that can move, the end.
void feed_act(struct served_feed *feed);

// Timeouts: loaders that hang, members that hold up others, how long a feed stays warm.
void feed_tick(struct served_feed *feed, uint64_t now);

// Frees feeds and pools that are no longer in use.
void feeds_free(struct supervisor *supervisor);

#endif
