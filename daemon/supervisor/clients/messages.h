// What each message of a client does. One table says which message is allowed in which state.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_MESSAGES_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_MESSAGES_H

#include "daemon/supervisor/clients/session.h"

void messages_handle(struct session *session, const Feedd__ClientMessage *message);

#endif
