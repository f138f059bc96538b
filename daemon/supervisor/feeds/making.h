// Creates a feed: it waits for room, then threads allocate the memory of its ring while its loaders start, and, as soon
// as there are some slots, while it is being filled.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_MAKING_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_MAKING_H

#include "base/error.h"
#include "daemon/supervisor/feeds/served_feed.h"

// Begins to create a feed, for a client that the caller has wait for it (places_await). On failure nothing is left.
// Later the feed is open and admits its clients, or it has failed and told them why. An open one may still fail for
// lack of memory, if others have taken what was free before the last slots were allocated.
int making_start(struct supervisor *supervisor, uid_t user, const struct attach_request *request,
                 struct served_feed **made, struct error *error);

// The turn of a feed that is being created, or whose last slots are being allocated, which wait for the first
// batch.
void making_act(struct served_feed *feed);

// Whether the last slots need not wait any longer.
bool making_may_continue(const struct served_feed *feed);

// Whether the thread that worked at it last found no memory.
bool making_lacks_memory(const struct served_feed *feed);

// Memory has been given back, which may be what it waits for. Harmless if it is not being made.
void making_try_again(struct served_feed *feed);

// Frees what making it needs, if it is still being made and no thread works at it.
void making_free(struct served_feed *feed);

#endif
