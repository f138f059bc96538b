// Why a file cannot be reached: which part of its path stands in the way, and for which user.
#ifndef FEEDD_DAEMON_ACCESS_H
#define FEEDD_DAEMON_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

// Describes the first obstacle to using `path` with `mode` (R_OK, W_OK or X_OK) as this process's effective user:
// "/data/private is not searchable by user feedd". False if there is none.
bool access_obstacle(const char *path, int mode, char *text, size_t bytes);

// For a path that does not exist: what a shell would have expanded in it, as "; ...", or "".
const char *access_hint(const char *path);

// What strerror says of `code`; for EACCES followed by the obstacle to reading `path`, for ENOENT by access_hint().
const char *access_reason(int code, const char *path, char *text, size_t bytes);

// The effective user's name; its number if it has none.
void access_user(char *text, size_t bytes);

// Becomes the user called `name` for the rest of the process, with its groups. Only root can become somebody else.
int access_become(const char *name, struct error *error);

#endif
