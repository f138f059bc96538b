// Feeds that nobody uses: they stay warm for a while, and make way for feeds that are wanted.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_IDLE_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_IDLE_H

#include "daemon/supervisor/feeds/served_feed.h"

#define IDLE_OF_ANYBODY ((uid_t)-1)

// Whether the feed has no clients and can be closed for another one.
bool idle_is(const struct served_feed *feed);

// A client has left that waited for a place: for a pool that is being opened. Those that look for the daemon come back
// every few seconds, until it is open.
void idle_expect_return(struct served_feed *feed);

// Whether the feed is kept for such a client, or it would be made anew each time, and never be ready. A few of the
// feeds that a user, or all together, may have are kept at once: where clients do not come back, the rest has room.
bool idle_is_kept(const struct served_feed *feed, uint64_t now);

// The feed of `user`, or IDLE_OF_ANYBODY, that has been idle for longest; NULL: none is.
struct served_feed *idle_longest(const struct supervisor *supervisor, uid_t user);

#endif
