// Clients that wait for an index: feedctl index, which has one checked or built, and consumers.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_INDEX_COMMAND_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_INDEX_COMMAND_H

#include "daemon/supervisor/clients/session.h"

// False: there is no answer yet, and the command is to be handled again later.
bool index_command(struct session *session, const char *name);

// Whether a consumer whose dataset is not there yet continues to wait for it; 0: without end.
bool index_is_awaited(struct session *session, uint32_t patience_ms);

#endif
