// The size of a feed's ring, from what its clients ask for, the configuration, and the machine's caches.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_RING_SIZE_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_RING_SIZE_H

#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/supervisor/feeds/attach_request.h"
#include "shm/ring.h"
#include "shm/ring_make.h"

// A ring with one slot for this request. -EOVERFLOW: the batch is too large, or too large for the requested GPU.
int ring_size_check_batch(const struct attach_request *request, struct ring_plan *plan, struct error *error);

// The ring of a new feed. If nobody has set its size, it takes at most a quarter of `room`, the bytes that it can have.
// -EINVAL: no ring has room for that many ranks with that much prefetch.
int ring_size_plan(const struct config *config, const struct attach_request *request, uint64_t room,
                   struct ring_plan *plan, struct error *error);

#endif
