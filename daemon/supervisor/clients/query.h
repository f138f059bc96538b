// Answers for feedctl: what the daemon is, has and does. Long lists go in pages, since a message is bounded.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_H

#include "daemon/supervisor/clients/session.h"

void query_answer(struct session *session, const Feedd__Query *query);

#endif
