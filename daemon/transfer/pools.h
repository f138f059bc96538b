// The pools of a transfer process, and what the supervisor asks about them.
#ifndef FEEDD_DAEMON_TRANSFER_POOLS_H
#define FEEDD_DAEMON_TRANSFER_POOLS_H

#include <sys/queue.h>

#include "daemon/control.h"
#include "daemon/transfer/device_ring.h"
#include "shm/stats.h"

struct pool_set {
    LIST_HEAD(, device_ring) list;
    struct gpu *gpu;
    struct engine_queue *engine; // NULL: none
    struct stats_gpu *stats;
    struct trace_writer *trace;
    struct gpu_clock *clock;
    // Called again and again while pools_drop waits for the engine, which may take as long as for its first job, and
    // has other pools' jobs to do before this one's: says that the process is alive, and sleeps a little.
    void (*waits)(struct pool_set *set);
};

// Does what is asked, and takes over the descriptors.
void pools_handle(struct pool_set *set, const struct transfer_request *request, int *fds, uint32_t fd_count);

// Pins one piece of the first pool that is not ready, so that the others need not wait for all of it. True: there was
// such a pool.
bool pools_prepare_one(struct pool_set *set);

void pools_drop(struct pool_set *set, struct device_ring *pool);

// Writes to the statistics what they have.
void pools_count(const struct pool_set *set);

#endif
