// Timeouts, checked a few times per second: loaders that hang, consumers that hold up others, feeds that nobody uses,
// sessions that send nothing.
#ifndef FEEDD_DAEMON_SUPERVISOR_WATCH_H
#define FEEDD_DAEMON_SUPERVISOR_WATCH_H

#include "daemon/supervisor/supervisor.h"

void watch_tick(struct supervisor *supervisor, uint64_t now);

#endif
