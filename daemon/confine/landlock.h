// Landlock, by its system calls: a process gives up paths, TCP and signals for itself and what it starts.
#ifndef FEEDD_DAEMON_CONFINE_LANDLOCK_H
#define FEEDD_DAEMON_CONFINE_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct landlock {
    bool no_paths; // no access to any file by its path, but for reading beneath these descriptors:
    int first_readable;
    uint32_t readable_count;
    bool no_writes; // no new files, and none opened for writing, except beneath `writable`
    const char *const *writable;
    size_t writable_count;
    bool no_tcp;
    bool no_signals;          // to processes that are not confined as well
    bool no_abstract_sockets; // of such processes
};

// The kernel's version of Landlock; negative errno: it has none.
int landlock_version(void);

// Whether a version can do what is asked.
#define LANDLOCK_FOR_PATHS   1
#define LANDLOCK_FOR_TCP     4
#define LANDLOCK_FOR_SIGNALS 6

// Applies what `version` can do of it to this thread and its future children; needs PR_SET_NO_NEW_PRIVS. 0 or negative
// errno.
int landlock_apply(const struct landlock *landlock, int version);

#endif
