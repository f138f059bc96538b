// Which datasets a client may use, and what it may see of other users.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_ADMISSION_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_ADMISSION_H

#include "base/error.h"
#include "daemon/supervisor/clients/session.h"

// Finds the dataset that a client wants to use. -ENOENT: there is none of that name; -EACCES: this client may not use
// it, and learns nothing else about it; -EAGAIN: its index is being built; or why that could not be done.
int admission_find(struct session *session, const char *name, const struct dataset **dataset,
                   struct error *error);

// Whether supervisor->datasets[i] is shown to the client.
bool admission_shows_dataset(struct session *session, size_t i);

// Whether what belongs to anybody is shown to the client.
bool admission_shows_all(const struct session *session);

// Whether sessions and feeds of `user` are shown to the client.
bool admission_shows_user(const struct session *session, uid_t user);

// Counts what is not shown to the client. False: nothing.
bool admission_count_others(const struct session *session, Feedd__Others *others);

#endif
