// How many feeds a user may have, and how much memory rings may take: all together, and per user. A feed counts from
// when it is asked for until it is closed; room.h has what is given back only when a closed feed is gone.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_BUDGET_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_BUDGET_H

#include "base/error.h"
#include "daemon/supervisor/supervisor.h"

struct served_feed;

// The bytes that one more ring of `user` can have, once idle feeds have been closed.
uint64_t budget_left(const struct supervisor *supervisor, uid_t user);

// Makes room for one more feed of `user` with a ring of that size, by closing idle feeds if it must. If that would not
// be enough, nothing is closed.
// -EBUSY: the user has as many feeds as quota_feeds says, or too many that are still being closed. -ENOSPC: the ring
// does not fit ring_memory or the user's part of it.
int budget_make_room(struct supervisor *supervisor, uid_t user, uint64_t bytes, struct error *error);

// The same for `bytes` more of the ring of a feed that there is, which is in use.
int budget_grow(const struct served_feed *feed, uint64_t bytes, struct error *error);

#endif
