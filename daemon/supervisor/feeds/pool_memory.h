// GPU memory for pools, within what all of them and those of a user may have. Idle pools make way.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_MEMORY_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_MEMORY_H

#include "base/error.h"
#include "daemon/supervisor/feeds/pool.h"

// -ENOSPC: a pool of `user` cannot have `bytes` more there. `what` is what needs them: the sentence begins with it.
int pool_memory_find(const struct device *device, uid_t user, uint64_t bytes, const char *what,
                     struct error *error);

// For a lack that only shows when memory is allocated: closes an idle pool, unless closed ones are still ending. True:
// try again soon.
bool pool_memory_make_way(const struct device *device);

#endif
