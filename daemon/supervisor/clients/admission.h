// Which datasets a client may use.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_ADMISSION_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_ADMISSION_H

#include "base/error.h"
#include "daemon/supervisor/clients/session.h"

// Finds the dataset that a client wants to use. -ENOENT: there is none of that name; -EACCES: this client may not use
// it, and learns nothing else about it.
int admission_find(struct session *session, const char *name, const struct dataset **dataset,
                   struct error *error);

// Whether the client may use supervisor->datasets[i].
bool admission_permits(struct session *session, size_t i);

#endif
