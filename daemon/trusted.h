// The users who may do everything and see everything.
#ifndef FEEDD_DAEMON_TRUSTED_H
#define FEEDD_DAEMON_TRUSTED_H

#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

// Root and the daemon's own user, who can do as they like with the daemon anyway.
static inline bool user_is_trusted(uid_t user) {
    return user == 0 || user == geteuid();
}

#endif
