// How much memory the caches of decoded images may take together: cache_memory, and of each user user_cache_memory.
// What counts is what a cache may grow to, so that those that were given room can fill it; of one with a file, that is
// what it has in memory besides.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_CACHE_ROOM_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_CACHE_ROOM_H

#include <sys/types.h>

#include "base/error.h"
#include "daemon/config/config.h"

struct cache_usage {
    uint64_t own, all; // bytes of the user's caches, and of everybody's
};

// cache_memory, or half of what this machine, or the daemon's control group, has.
uint64_t cache_room_limit(const struct config *config);

// Whether there is room for another cache of the user.
bool cache_room_fits(const struct config *config, uid_t user, uint64_t bytes, struct cache_usage usage);

// -ENOSPC: there is not, with a sentence that says what can be done about it.
int cache_room_check(const struct config *config, uid_t user, uint64_t bytes, struct cache_usage usage,
                     struct error *error);

#endif
