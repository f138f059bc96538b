// feedctl loaders: how many loaders a feed has.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_LOADERS_COMMAND_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_LOADERS_COMMAND_H

#include "daemon/supervisor/clients/session.h"

// `feed` is an id or a name; 0: as many as it needs. The session is trusted.
void loaders_command(struct session *session, const char *feed, uint32_t count);

#endif
