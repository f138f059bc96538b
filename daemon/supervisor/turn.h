// The turn: the one place where the supervisor acts. Events only mark what has changed; the turn runs once before each
// wait for events, and works off what is marked.
#ifndef FEEDD_DAEMON_SUPERVISOR_TURN_H
#define FEEDD_DAEMON_SUPERVISOR_TURN_H

#include "daemon/supervisor/supervisor.h"

// Sets supervisor->again if something was left for the next turn, which is to follow without a wait.
void turn_run(struct supervisor *supervisor);

#endif
