// The turn: the only place where the supervisor acts. Events only mark what has changed; the turn runs once before each
// wait for events and handles everything that is marked.
#ifndef FEEDD_DAEMON_SUPERVISOR_TURN_H
#define FEEDD_DAEMON_SUPERVISOR_TURN_H

#include "daemon/supervisor/supervisor.h"

// Sets supervisor->again if work is left for the next turn, which must then follow without a wait.
void turn_run(struct supervisor *supervisor);

#endif
