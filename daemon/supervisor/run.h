// Runs the supervisor: start, signals, the loop, stop.
#ifndef FEEDD_DAEMON_SUPERVISOR_RUN_H
#define FEEDD_DAEMON_SUPERVISOR_RUN_H

#include <stdbool.h>

#include "daemon/config/config.h"

// Runs the daemon until it is told to stop, or with until_eof until standard input ends; takes over `config`. Returns
// the process's exit status.
int supervisor_run(struct config *config, bool until_eof);

#endif
