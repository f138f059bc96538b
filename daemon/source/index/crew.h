// Work on many files in several threads.
#ifndef FEEDD_DAEMON_SOURCE_INDEX_CREW_H
#define FEEDD_DAEMON_SOURCE_INDEX_CREW_H

#include <stdint.h>

// Calls `work` with 0 to count - 1, in any thread. They are begun in order, and none after one that returned an error;
// so the first that fails is always among those that are finished.
void crew_work(int (*work)(void *context, uint32_t index), void *context, uint32_t count);

#endif
