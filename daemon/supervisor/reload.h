// A new configuration: read, and its datasets opened, in a thread of libuv's pool, because storage may be slow. The
// loop continues meanwhile, and the turn swaps the result in. Feeds in use keep what they have.
#ifndef FEEDD_DAEMON_SUPERVISOR_RELOAD_H
#define FEEDD_DAEMON_SUPERVISOR_RELOAD_H

#include "daemon/supervisor/supervisor.h"

// One is wanted, and none is under way.
bool reload_is_due(const struct supervisor *supervisor);

// The turn: begins a reload that is wanted, finishes one that is done.
void reload_act(struct supervisor *supervisor);

#endif
