// A new configuration. A thread of libuv's pool reads it and opens its datasets, because storage may be slow, while the
// loop continues; the turn then swaps in the result. Feeds in use keep the dataset that they have.
#ifndef FEEDD_DAEMON_SUPERVISOR_RELOAD_H
#define FEEDD_DAEMON_SUPERVISOR_RELOAD_H

#include "daemon/supervisor/supervisor.h"

// One has been requested, and none is under way.
bool reload_is_due(const struct supervisor *supervisor);

// The turn: begins a reload that has been requested, finishes one that is done.
void reload_act(struct supervisor *supervisor);

#endif
