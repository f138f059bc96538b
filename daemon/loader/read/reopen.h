// Descriptions of its own of the files a loader was given.
#ifndef FEEDD_DAEMON_LOADER_READ_REOPEN_H
#define FEEDD_DAEMON_LOADER_READ_REOPEN_H

#include <stdint.h>

// Opens `count` descriptors from `first` on anew, in place. An inherited descriptor shares its open file description,
// in which the kernel writes with every buffered read (the position of read-ahead): that cache line moves from core
// to core, and loaders that share it do not get faster beyond about eight. What cannot be opened anew stays as it
// was.
void reopen_files(int first, uint32_t count);

#endif
