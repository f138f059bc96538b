// Starts this program again as a child. The caller does not wait until the child has come as far as exec, as uv_spawn
// and posix_spawn do: on a busy machine that can take a child tens of milliseconds.
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_SPAWN_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

// The exit status of a child that could not become the program.
#define SPAWN_NO_EXEC 127

struct spawn {
    char *const *arguments; // ends with NULL
    int *fds;               // fds[n] becomes descriptor n of the child; those below 0 become /dev/null
    uint32_t fd_count;      // all other descriptors are expected to be close-on-exec
};

// *pid on success. The child has no handled, ignored or blocked signals.
int spawn_self(const struct spawn *spawn, pid_t *pid);

#endif
