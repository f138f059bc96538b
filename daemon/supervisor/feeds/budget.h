// How much memory rings may take: all together, and per user.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_BUDGET_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_BUDGET_H

#include "base/error.h"
#include "daemon/supervisor/supervisor.h"

// Makes room for one more feed of `user` with a ring of that size, by closing warm feeds that nobody uses if it must.
// -EBUSY: the user has user_feeds feeds. -ENOSPC: the ring does not fit ring_memory or user_ring_memory.
int budget_make_room(struct supervisor *supervisor, uid_t user, uint64_t bytes, struct error *error);

#endif
