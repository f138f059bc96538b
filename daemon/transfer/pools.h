// The pools of a transfer process, and what the supervisor asks about them.
#ifndef FEEDD_DAEMON_TRANSFER_POOLS_H
#define FEEDD_DAEMON_TRANSFER_POOLS_H

#include <sys/queue.h>

#include "daemon/control.h"
#include "daemon/transfer/device_ring.h"
#include "shm/stats.h"

struct pool_set {
    LIST_HEAD(, device_ring) list;
    LIST_HEAD(, device_ring) ending; // the engine still has jobs of theirs
    struct gpu *gpu;
    struct engine_queue *engine; // NULL: none
    struct stats_gpu *stats;
    struct trace_writer *trace;
    struct gpu_clock *clock;
};

// Does what is asked, and takes over the descriptors.
void pools_handle(struct pool_set *set, const struct transfer_request *request, int *fds, uint32_t fd_count);

// Pins one piece of the first pool that is not ready, so that the others need not wait for all of it. True: there was
// such a pool.
bool pools_prepare_one(struct pool_set *set);

// Ends the pool now or, if the engine still has some of its jobs, with a later pools_end_settled: the engine may take
// as long as for its first job, and has other pools' jobs to do before these. Then the supervisor is told `last_word`:
// TRANSFER_POOL_CLOSED, or TRANSFER_POOL_REFUSED with an error.
void pools_end(struct pool_set *set, struct device_ring *pool, uint32_t last_word, const struct error *error);
// True: some are still to be ended.
bool pools_end_settled(struct pool_set *set);
// Closes the engine, too. Nobody is told.
void pools_close_all(struct pool_set *set);

// Writes to the statistics what they have.
void pools_count(const struct pool_set *set);

#endif
