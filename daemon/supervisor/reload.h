// A new configuration. A thread reads it and opens its datasets, because storage may be slow, while the loop continues;
// the turn then swaps in the result. Feeds in use keep the dataset that they have. When storage does not answer for
// loader_timeout, the reload is given up; the next one begins once its thread has ended, since nothing else ends it.
#ifndef FEEDD_DAEMON_SUPERVISOR_RELOAD_H
#define FEEDD_DAEMON_SUPERVISOR_RELOAD_H

#include "daemon/supervisor/supervisor.h"

// One has been requested, and none is under way.
bool reload_is_due(const struct supervisor *supervisor);

// The turn: begins a reload that has been requested, finishes one that is done.
void reload_act(struct supervisor *supervisor);

// Leaves one that is under way to its thread, or to the end of this process.
void reload_leave(struct supervisor *supervisor);

#endif
