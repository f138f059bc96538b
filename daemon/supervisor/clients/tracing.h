// The timeline (shm/trace.h) is on as long as a client that asked for it is there.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_TRACING_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_TRACING_H

#include "daemon/supervisor/clients/session.h"

// The command: answers it.
void tracing_begin(struct session *session);
// The session ends.
void tracing_end(struct session *session);
// Turns the rings on of processes that have been started since. A few times per second.
void tracing_tick(struct supervisor *supervisor);

#endif
