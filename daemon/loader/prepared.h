// A loader that is started before there is a feed for it: it does what needs none, and waits for its descriptors.
#ifndef FEEDD_DAEMON_LOADER_PREPARED_H
#define FEEDD_DAEMON_LOADER_PREPARED_H

#include "base/error.h"
#include "daemon/loader/read/uring_queues.h"
#include "shm/ring.h"

// What every loader does before it knows its feed, or as soon as it does.
void loader_begin(void);

// 0 once the descriptors of heritage.h are in place; then it is a loader like any other, and ps shows it as one.
// -ECANCELED: there will be no feed. `arguments` are the process's own, which are overwritten. `memory`: what it was
// offered and has mapped, which need not be its feed's.
int prepared_await(char **arguments, struct uring_queues *queues, struct ring_memory *memory,
                   struct error *error);

#endif
