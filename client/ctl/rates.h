// Rates from counters. Pure.
#ifndef FEEDD_CLIENT_CTL_RATES_H
#define FEEDD_CLIENT_CTL_RATES_H

#include "shm/stats_read.h"

struct feed_rates {
    double seconds;       // the time that the figures cover
    double samples_per_s; // delivered, summed over consumers
    double batches_per_s;
    double bytes_per_s;
    double read_bytes_per_s; // read into the ring: once for all consumers that share it
    double cached_per_s;     // images that loaders took from a cache
    double engine_per_s;     // images that GPUs' engines decoded
    double unfit_per_s;      // images that loaders decoded instead
    double ring_full;        // 0..1, the share of slots that are ready; now, not over the time
    double room_wait;        // 0..1 of the loaders' time: the ring was full
    double io_wait;          // 0..1 of the loaders' time: waited for storage
    double consumer_wait;    // 0..1 of the consumers' time: waited for a batch
    uint64_t batches, read_errors, skipped, children_replaced, consumers_detached; // within the time
};

// What happened to a feed from `before` (NULL: since it started) to `after`, taken at these times.
void rates_between(const struct stats_feed_snapshot *before, const struct stats_feed_snapshot *after,
                   uint64_t before_ns, uint64_t after_ns, struct feed_rates *rates);

struct gpu_rates {
    double seconds; // the time that the figures cover
    double copies_per_s;
    double bytes_per_s;
    double busy;         // 0..1 of the time: a copy was in progress
    double release_wait; // 0..1 of the time: all copies waited for a consumer's stream
    double bus;          // bytes_per_s as a share of the measured bandwidth of the bus; 0: not measured
    uint64_t copies, processes_replaced; // within the time
};

// Whether the speed of its bus means something: it was measured, and the GPU is not a simulated one, which has none.
bool rates_have_bus(const char *uuid, uint64_t bus_bytes_per_s);

// What happened to a GPU from `before` (NULL: since its counters began) to `after`, taken at these times.
void rates_of_gpu(const struct stats_gpu_snapshot *before, const struct stats_gpu_snapshot *after,
                  uint64_t before_ns, uint64_t after_ns, struct gpu_rates *rates);

// The state of the daemon, from its statistics alone.
enum daemon_state {
    DAEMON_ALIVE,
    DAEMON_STOPPED, // stopped cleanly
    DAEMON_GONE,    // its process no longer exists
    DAEMON_WEDGED,  // it exists, but without a heartbeat for DAEMON_WEDGED_NS
};

#define DAEMON_WEDGED_NS UINT64_C(3000000000)

enum daemon_state rates_daemon_state(const struct stats_snapshot *snapshot, bool process_exists);
const char *daemon_state_name(enum daemon_state state);

#endif
