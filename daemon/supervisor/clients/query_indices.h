// The list of a view that has one: sample numbers, or the sums by which it draws.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_INDICES_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_INDICES_H

#include "daemon/supervisor/clients/session.h"

// Answers with a page of it, from sample `start` of the view `name`; with no numbers if the view has no list.
void query_indices(struct session *session, const char *name, uint32_t start,
                   void (*send)(struct session *session, Feedd__Answer *answer));

// The same for the sums of shares of a view that draws by weight.
void query_shares(struct session *session, const char *name, uint32_t start,
                  void (*send)(struct session *session, Feedd__Answer *answer));

#endif
