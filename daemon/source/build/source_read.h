// Reads of a file whose index is being made, for formats that say themselves what they expected.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_SOURCE_READ_H
#define FEEDD_DAEMON_SOURCE_BUILD_SOURCE_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// Reads all of `bytes` bytes, which must lie in the file.
int source_read(int fd, void *to, size_t bytes, uint64_t offset, struct error *error);

#endif
