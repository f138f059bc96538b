// What the child processes of the supervisor have in common.
#ifndef FEEDD_DAEMON_ROLE_H
#define FEEDD_DAEMON_ROLE_H

#include <signal.h>

#include "base/error.h"

// Set by SIGTERM, which also ends sleeps.
extern volatile sig_atomic_t role_stopping;

// Lets this process die with the supervisor, whatever that dies of, and takes signals as children of it do.
int role_tie(uint64_t supervisor_pid, struct error *error);

// Maps the settings that came in descriptor `fd`: at least `least` bytes, of which the first 64-bit word says how many.
int role_map_settings(int fd, uint64_t least, const void **settings, struct error *error);

#endif
