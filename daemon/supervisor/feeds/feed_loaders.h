// A feed's loader processes: as many as are wanted, replaced when they die.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_LOADERS_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_LOADERS_H

#include "daemon/supervisor/feeds/served_feed.h"

void feed_loaders_init(struct served_feed *feed);

// Starts loaders until as many run as are wanted, if it is time to, and not before the control part of the ring is
// there.
void feed_loaders_start(struct served_feed *feed);

// The turn: takes back what loaders that are gone had claimed, and counts and replaces those that have died.
void feed_loaders_act(struct served_feed *feed);

// The tick: kills those that hang, and those that do not stop in time.
void feed_loaders_watch(struct served_feed *feed, uint64_t now);

// Asks all to end; `kill` does not ask.
void feed_loaders_end(struct served_feed *feed, bool kill);

#endif
