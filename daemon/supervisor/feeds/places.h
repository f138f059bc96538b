// How clients get a place in a feed, and how they leave it.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_PLACES_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_PLACES_H

#include "daemon/supervisor/feeds/served_feed.h"

// Makes a member wait for a place; the feed's turn gives it one as soon as the feed, and the pool it needs, are ready.
void places_await(struct served_feed *feed, struct member *member);

// Gives a place to each waiting member that can have one. The others are told why not, or keep waiting.
void places_admit(struct served_feed *feed);

// Whether a client that returns after the loss of a daemon still waits for its place: for a pool that is being opened.
bool places_await_return(const struct served_feed *feed);

// Takes a member off the feed, whether it has a place, waits for one, or neither.
void places_leave(struct member *member);

#endif
