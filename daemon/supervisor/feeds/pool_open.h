// Creates a pool: the size of its ring, GPU memory, the bookkeeping.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_OPEN_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_OPEN_H

#include "base/error.h"
#include "daemon/supervisor/feeds/pool.h"

// The pool of a feed on the requested GPU, created if necessary. It may not be open yet; then its clients wait until it
// is, or has failed.
int pool_get(struct served_feed *feed, const struct attach_request *request, struct pool **pool,
             struct error *error);

// -EINVAL: no pool has room for that many ranks.
int pool_check_lanes(const struct attach_request *request, struct error *error);

// Frees a pool that is done.
void pool_free(struct pool *pool);

#endif
