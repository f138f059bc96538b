// Answers to feedctl's questions about the daemon. Long lists are sent in pages, since messages are bounded.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_H

#include "daemon/supervisor/clients/session.h"

void query_answer(struct session *session, const Feedd__Query *query);

#endif
