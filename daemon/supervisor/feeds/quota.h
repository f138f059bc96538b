// What one user may have. A limit in the configuration applies to everybody. Where the configuration leaves it open, a
// user gets three quarters of what there is, so that there is room for another user. Root and the daemon's own user get
// all of it then: whoever runs a daemon for themselves has no one to share it with.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_QUOTA_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_QUOTA_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/config/config.h"

// How many feeds fit into the statistics at once, with the configured number of loaders each.
uint64_t quota_all_feeds(const struct config *config);

uint64_t quota_feeds(const struct config *config, uid_t user);
uint64_t quota_ring_memory(const struct config *config, uid_t user);
uint64_t quota_view_memory(const struct config *config, uid_t user);                // that clients bring
uint64_t quota_cache_memory(const struct config *config, uint64_t all, uid_t user); // of the `all` for caches
uint64_t quota_device_memory(const struct config *config, uid_t user);              // of each GPU

#endif
