// How large a feed's ring is: what its clients ask for, what the configuration says, what the machine's caches hold.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_RING_SIZE_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_RING_SIZE_H

#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/supervisor/feeds/attach_request.h"
#include "shm/ring.h"

// A ring of one place for what is asked. -EOVERFLOW: the batch is too large, or too large for the GPU that is named.
int ring_size_check_batch(const struct attach_request *request, struct ring_plan *plan, struct error *error);

// The ring of a new feed. -EINVAL: no ring has room for that many ranks with that much prefetch.
int ring_size_plan(const struct config *config, const struct attach_request *request, struct ring_plan *plan,
                   struct error *error);

#endif
