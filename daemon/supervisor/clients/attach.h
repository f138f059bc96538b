// From an Attach to a place in a feed. Nothing is changed before everything is checked.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_H

#include "daemon/supervisor/clients/session.h"

// Checks the options, finds or makes the feed, and lets the session wait for its place there.
void attach_session(struct session *session, const Feedd__Attach *attach);

#endif
