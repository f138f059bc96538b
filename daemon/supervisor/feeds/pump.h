// Moves what can move in a feed: finished batches are collected, free slots dispatched, batches granted.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_PUMP_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_PUMP_H

#include "daemon/supervisor/feeds/served_feed.h"

// Once per turn for a feed that is marked and open. A sample that cannot be read fails the feed here.
void pump_feed(struct served_feed *feed);

#endif
