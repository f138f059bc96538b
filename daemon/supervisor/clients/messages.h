// What each message of a client does. Which message may come in which state is one table.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_MESSAGES_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_MESSAGES_H

#include "daemon/supervisor/clients/session.h"

void messages_handle(struct session *session, const Feedd__ClientMessage *message);

#endif
