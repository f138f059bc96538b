// Moves a feed's batches along: collects finished batches, dispatches free slots, grants batches.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_PUMP_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_PUMP_H

#include "daemon/supervisor/feeds/served_feed.h"

// Called once per turn for a feed that is marked and open. A sample that cannot be read fails the feed here.
void pump_feed(struct served_feed *feed);

#endif
