// Loader processes that wait for the next feed: as many as it begins with, so that it need not wait until they have
// started. They belong to no user, and one that has been given a feed never comes back.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_PREPARED_LOADERS_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_PREPARED_LOADERS_H

#include "daemon/supervisor/processes/loader_process.h"
#include "daemon/supervisor/supervisor.h"

void prepared_loaders_init(struct supervisor *supervisor);

// Starts a loader: a prepared one, if there is one and it can be used.
int prepared_loaders_start(struct supervisor *supervisor, struct loader_start *start,
                           struct loader_process **started, struct error *error);

// How many wait for a feed.
uint32_t prepared_loaders_count(const struct supervisor *supervisor);

// The turn: those that have ended.
void prepared_loaders_act(struct supervisor *supervisor);

// The tick: prepares some if there are too few, and ends those that are too many or prepared for other settings.
void prepared_loaders_tick(struct supervisor *supervisor, uint64_t now);

// All of them: asks them to end, or kills them.
void prepared_loaders_end(struct supervisor *supervisor, bool kill);

#endif
