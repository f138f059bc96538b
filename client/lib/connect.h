// Finding the daemon's socket and connecting to it.
#ifndef FEEDD_CLIENT_LIB_CONNECT_H
#define FEEDD_CLIENT_LIB_CONNECT_H

#include "base/error.h"
#include "client/lib/waiting.h"

// The socket to use: `path` if given, else $FEEDD_SOCKET, else the default.
const char *connect_path(const char *path);

// A connected, non-blocking socket, or a negative errno with a sentence for the user. -ECONNREFUSED: no daemon
// listens there, whether or not there is a socket.
int connect_socket(const char *path, struct interrupt interrupt, uint64_t deadline, struct error *error);

#endif
