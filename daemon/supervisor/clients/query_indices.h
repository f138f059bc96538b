// The sample numbers of a view that names them.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_INDICES_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_INDICES_H

#include "daemon/supervisor/clients/session.h"

// Answers with a page of them, from sample `start` of the view `name` on; with none if it does not name its samples.
void query_indices(struct session *session, const char *name, uint32_t start,
                   void (*send)(struct session *session, Feedd__Answer *answer));

#endif
