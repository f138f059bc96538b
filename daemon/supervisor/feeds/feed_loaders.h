// A feed's loader processes: keeps the configured number running and replaces those that die.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_LOADERS_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_LOADERS_H

#include "daemon/supervisor/feeds/served_feed.h"

void feed_loaders_init(struct served_feed *feed);

// Starts loaders up to the configured number, if it is time to. Does nothing before the ring's control part exists.
void feed_loaders_start(struct served_feed *feed);

// The turn: takes back the claims of loaders that are gone, and counts and replaces those that have died.
void feed_loaders_act(struct served_feed *feed);

// The tick: kills those that hang, and those that do not stop in time.
void feed_loaders_watch(struct served_feed *feed, uint64_t now);

// Asks all to stop, or with `kill` kills them.
void feed_loaders_end(struct served_feed *feed, bool kill);

// The daemon exits without those that were killed and have not ended: the log names them and what they wait for.
void feed_loaders_report_left(struct served_feed *feed, uint64_t now);

#endif
