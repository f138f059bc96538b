// What the child processes of the supervisor have in common.
#ifndef FEEDD_DAEMON_ROLE_H
#define FEEDD_DAEMON_ROLE_H

#include <signal.h>

#include "base/error.h"

// Set by SIGTERM, which also ends sleeps.
extern volatile sig_atomic_t role_stopping;

// Makes this process die with the supervisor, however that ends, and sets up signals as its children need them.
int role_tie(uint64_t supervisor_pid, struct error *error);

// Maps what the supervisor has put into descriptor `fd`, for reading: at least `least` bytes, the first 64-bit word of
// which is their size. `what` is for messages: "settings".
int role_map(int fd, const char *what, uint64_t least, const void **memory, struct error *error);

#endif
