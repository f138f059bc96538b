// What happens to a session once per turn of the loop, and on every tick.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_SESSION_TURN_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_SESSION_TURN_H

#include "daemon/supervisor/clients/session.h"

// The turn of a marked session: handles a few of its messages, and its end. Sets supervisor->again if messages are left
// for the next turn.
void session_act(struct session *session);

// Timeouts: clients that send nothing, or do not read why their session ends; questions that had to wait.
void session_tick(struct session *session, uint64_t now);

#endif
