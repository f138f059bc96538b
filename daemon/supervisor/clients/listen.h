// The listening socket, created here or passed by the service manager; a lock file ensures one daemon per path.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_LISTEN_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_LISTEN_H

#include "base/error.h"
#include "daemon/supervisor/supervisor.h"

int listen_open(struct supervisor *supervisor, struct error *error);

// Begins to accept.
int listen_start(struct supervisor *supervisor);
// Continues accepting after a pause for lack of descriptors.
void listen_resume(struct supervisor *supervisor);
// Stops accepting; the socket stays until listen_close.
void listen_stop(struct supervisor *supervisor);

void listen_close(struct supervisor *supervisor);

#endif
