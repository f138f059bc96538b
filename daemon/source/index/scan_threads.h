// Threads that look through files together, while the thread that asked for it waits.
#ifndef FEEDD_DAEMON_SOURCE_INDEX_SCAN_THREADS_H
#define FEEDD_DAEMON_SOURCE_INDEX_SCAN_THREADS_H

#include <stdint.h>

#define SCAN_MAX_THREADS 8u

// Runs `work(context)` in up to `most` threads, of which this one is the first, and alone if no other can be started.
void scan_in_threads(void *(*work)(void *context), void *context, uint64_t most);

#endif
