// Handles Bring and Piece: a client brings a view of a dataset, before it attaches to it.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_BRING_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_BRING_H

#include "daemon/supervisor/clients/session.h"

// False: nothing has been done, because room is being made; try again later.
bool bring_view(struct session *session, const Feedd__Bring *bring);

// Takes the next words. False: too many of them came lately; try again later.
bool bring_piece(struct session *session, const Feedd__Piece *piece);

// The view that the session has brought of that dataset, in place of the dataset.
int bring_find(const struct session *session, const char *name, const struct dataset **dataset,
               struct error *error);

// The turn: tells a session whose view is there, or which is to send its words.
void bring_act(struct session *session);

// The session ends.
void bring_leave(struct session *session);

#endif
