// How clients get a place in a feed, and how they leave it.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_PLACES_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_PLACES_H

#include "daemon/supervisor/feeds/served_feed.h"

// Lets a member wait for a place; the feed's turn gives it one as soon as the feed, and the pool it needs, are there.
void places_await(struct served_feed *feed, struct member *member);

// Gives a place to those that wait and can have one. Others are told why not, or wait on.
void places_admit(struct served_feed *feed);

// Takes a member off the feed, whether it has a place, waits for one, or neither.
void places_leave(struct member *member);

#endif
