// The listening socket: one daemon per path (by a lock file), made here or passed by the service manager; accepting.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_LISTEN_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_LISTEN_H

#include "base/error.h"
#include "daemon/supervisor/supervisor.h"

int listen_open(struct supervisor *supervisor, struct error *error);

// Begins to accept.
int listen_start(struct supervisor *supervisor);
// Continues after accepting had to pause for want of descriptors.
void listen_resume(struct supervisor *supervisor);
// Accepts nobody any more; the socket stays until listen_close.
void listen_stop(struct supervisor *supervisor);

void listen_close(struct supervisor *supervisor);

#endif
