// How much memory the views take that clients bring: all together, and per user.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_BROUGHT_ROOM_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_BROUGHT_ROOM_H

#include "base/error.h"
#include "daemon/supervisor/supervisor.h"

// Makes room for one more view of `user` that takes so many bytes: those that nobody uses make way, and so do the idle
// feeds over them. -EAGAIN: such feeds are being closed. -ENOSPC: what is in use does not leave enough; nothing has
// been closed.
int brought_make_room(struct supervisor *supervisor, uid_t user, uint64_t bytes, struct error *error);

#endif
