// feedd --check: whether the daemon would start with a configuration, and what it would serve.
#ifndef FEEDD_DAEMON_CHECK_H
#define FEEDD_DAEMON_CHECK_H

#include "base/error.h"

#define CHECK_SYSTEM_CONFIG "/etc/feedd/feedd.conf"
#define CHECK_SYSTEM_USER   "feedd" // what the unit runs the daemon as

// Checks the configuration at `path` and every file that it names, and prints what would be served. The process
// becomes `user` first and stays so. If `user` is NULL, root checks the system configuration as the system user, if
// that exists; all other checks are made as the current user.
// Returns the exit status: EXIT_SUCCESS, EX_CONFIG if the daemon would exit with that, or EXIT_FAILURE.
int check_config(const char *path, const char *user, struct error *error);

#endif
