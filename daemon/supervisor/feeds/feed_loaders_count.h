// How many loaders a feed has: as the configuration says, by hand, or as it needs (loader_count.h).
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_LOADERS_COUNT_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_LOADERS_COUNT_H

#include "daemon/supervisor/feeds/served_feed.h"

// How many loaders a feed with this configuration begins with.
uint32_t feed_loaders_first(const struct config *config, uint32_t processors);

// The most that one may have, so that memory for all of them is planned.
uint32_t feed_loaders_most(const struct served_feed *feed);

// How many records of the statistics its loaders have, also those that retire or hang, and those that are to start.
uint64_t feed_loaders_taken(const struct served_feed *feed);

// From now on the feed has so many loaders, from 1 to LOADER_COUNT_MOST; 0: as many as it needs. Those that are too
// many fill what they have claimed, and end. -EBUSY: the daemon has no records for them.
int feed_loaders_set(struct served_feed *feed, uint32_t count, struct error *error);

// A loader that was to end by itself is gone: says so if that was not how it ended.
void feed_loaders_report_retired(const struct served_feed *feed, const struct loader_process *loader);

// The tick.
void feed_loaders_count(struct served_feed *feed, uint64_t now);

#endif
