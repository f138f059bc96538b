// The machine was suspended, or too busy to run the supervisor, and perhaps others too. Nobody could do meanwhile what
// time limits ask for, so that time does not count.
#ifndef FEEDD_DAEMON_SUPERVISOR_STANDSTILL_H
#define FEEDD_DAEMON_SUPERVISOR_STANDSTILL_H

#include "daemon/supervisor/supervisor.h"

// The tick, before anything else in it. supervisor->stood_still says what it has found.
void standstill_tick(struct supervisor *supervisor, uint64_t now);

#endif
