// Gives a loader its own open file descriptions of the files that it inherited.
#ifndef FEEDD_DAEMON_LOADER_READ_REOPEN_H
#define FEEDD_DAEMON_LOADER_READ_REOPEN_H

#include <stdint.h>

// Reopens `count` descriptors in place, starting at `first`. Inherited descriptors share an open file description,
// which the kernel writes to on every buffered read (the read-ahead position): that cache line moves from core to
// core, and loaders that share it stop scaling beyond about eight. What cannot be reopened stays as it was.
void reopen_files(int first, uint32_t count);

#endif
