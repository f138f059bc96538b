// Memory for the ring of the next feed: its first MiBs, allocated in advance, so that the first batches need not wait
// for that. Loaders that wait for the feed have mapped it. Until then it has no owner: no client has seen it, and
// nothing has been written to it. It exists where loaders are prepared, and makes way before any feed does.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_PREPARED_RING_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_PREPARED_RING_H

#include "daemon/supervisor/processes/loader_process.h"
#include "daemon/supervisor/supervisor.h"
#include "shm/ring_make.h"

// Becomes the object of a ring with that plan, in place of ring_create. Returns how much of it is allocated; 0: there
// is none.
uint64_t prepared_ring_take(struct supervisor *supervisor, const struct ring_plan *plan, int *fd,
                            int *read_fd);

// The memory that it takes; 0 while it is being made.
uint64_t prepared_ring_bytes(const struct supervisor *supervisor);

// Has a loader that waits for a feed map it, unless it has been told to already.
void prepared_ring_offer(const struct supervisor *supervisor, struct loader_process *loader);

// The memory is wanted for something else. False: there is none to give up.
bool prepared_ring_give_up(struct supervisor *supervisor);

// The tick: makes one in a thread if there is none, and gives up one that is no longer wanted.
void prepared_ring_tick(struct supervisor *supervisor, uint64_t now);

// Without the thread, which has ended, or ends with the process.
void prepared_ring_free(struct supervisor *supervisor);

#endif
