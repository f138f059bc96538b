// The eventfd by which the loaders of a feed wake the supervisor.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_EVENT_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_EVENT_H

#include "base/error.h"
#include "daemon/supervisor/feeds/served_feed.h"

int feed_event_open(struct served_feed *feed, struct error *error);

// From now on, it marks the feed.
int feed_event_watch(struct served_feed *feed, struct error *error);

#endif
