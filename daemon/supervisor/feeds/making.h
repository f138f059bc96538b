// Making a feed: the memory of its ring, which threads allocate, and its loaders, which start meanwhile.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_MAKING_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_MAKING_H

#include "base/error.h"
#include "daemon/supervisor/feeds/served_feed.h"

// Begins to make a feed. On failure nothing is left. Later it is open and admits its clients, or has failed and told
// them.
int making_start(struct supervisor *supervisor, uid_t user, const struct attach_request *request,
                 struct served_feed **made, struct error *error);

// The turn of a feed that is being made.
void making_act(struct served_feed *feed);

#endif
