// Feeds that nobody uses: they stay warm for a while, and make way for feeds that are wanted.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_IDLE_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_IDLE_H

#include "daemon/supervisor/feeds/served_feed.h"

#define IDLE_OF_ANYBODY ((uid_t)-1)

// Whether the feed has no clients and can be closed for another one.
bool idle_is(const struct served_feed *feed);

// The feed of `user`, or IDLE_OF_ANYBODY, that has been idle for longest; NULL: none is.
struct served_feed *idle_longest(const struct supervisor *supervisor, uid_t user);

#endif
