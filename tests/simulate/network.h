// Sockets between clients and the daemon: real pairs of sockets, but what is sent may be torn, or have to wait, and the
// other side sees it after a while. Replaces the calls by which both sides send, receive and wait.
#ifndef FEEDD_TESTS_SIMULATE_NETWORK_H
#define FEEDD_TESTS_SIMULATE_NETWORK_H

#include "tests/simulate/client.h"

void network_begin(void);

// How long it takes until somebody notices something.
uint64_t network_delay(void);

// The daemon has closed its end of a connection.
void network_closed(int fd);

// The daemon has a channel to a child process, whose actor is woken when something is sent; it is no longer.
void network_watched(int fd, struct actor *actor);
void network_unwatched(int fd, const struct actor *actor);

#endif
