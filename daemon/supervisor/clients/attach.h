// Handles an Attach up to the place in a feed. Everything is checked before anything is changed.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_H

#include "daemon/supervisor/clients/session.h"

// Checks the options, finds or creates the feed, and makes the session wait for its place there. False: nothing has
// been done, because this user has had too many feeds made lately; try again later.
bool attach_session(struct session *session, const Feedd__Attach *attach);

#endif
