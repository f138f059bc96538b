// What a seed stands for: the daemon's configuration, who consumes what, and how storage, network, memory and
// processes misbehave until the calm begins.
#ifndef FEEDD_TESTS_SIMULATE_PLAN_H
#define FEEDD_TESTS_SIMULATE_PLAN_H

#include <sys/types.h>

#include "tests/simulate/datasets.h"
#include "tests/simulate/sim.h"

#define GROUPS_MOST 3u
#define GROUP_MOST  3u // clients of a group

// Clients that run the same job.
struct group {
    enum dataset_kind dataset;
    bool brings; // its view of the dataset
    uid_t user;
    char share[8]; // "": everybody has a feed of their own
    struct reference_run run;
    uint64_t epochs;
    uint32_t clients, world_size, wait_for, prefetch;
    uint64_t ring_bytes;
    uint32_t pace_us;  // between two calls of libfeed, at most
    uint32_t pauses;   // of thousand calls, much longer ones
    uint32_t leaves;   // of thousand calls: a client leaves and continues later
    uint32_t wanders;  // of thousand clients that leave or come: somewhere else, as another job would
    bool stays_lost;   // its clients do not reconnect by themselves
    uint32_t left;     // clients that have left before their end
    uint64_t fresh_ns; // when a client that was not reconnecting last joined
    uint32_t opening;  // clients that are about to
    bool wandered;     // one of its clients begins or has begun between two global batches
    const char *devices[GROUP_MOST]; // of its clients; NULL: host memory
};

extern struct plan {
    // Configuration.
    uint64_t loaders, ring, ring_memory, linger_s, max_lag_s, loader_timeout_s, user_feeds;
    bool scarce;   // not everybody may find room at once
    bool prepares; // loaders, for the next feed
    // Storage.
    uint32_t read_us_least, read_us_most;
    uint32_t hiccups, stucks; // of thousand reads
    uint32_t hangs;           // of thousand of the latter: not even when the loader is killed
    uint32_t bad, flaky;      // of thousand samples
    // Network and scheduling.
    uint32_t delay_us;     // until a process sees what another one has done, at most
    uint32_t torn, full;   // of thousand sends: only a part is sent, nothing is
    uint32_t socket_bytes; // room in a client's socket; 0: the system's default
    // Memory and threads.
    uint32_t no_memory; // of thousand allocations of a ring
    uint32_t no_growth; // of thousand allocations for a slot that is to grow
    uint32_t thread_us;
    uint32_t unspawned, stillborn; // of thousand loaders: cannot be started, die at once
    uint32_t deaths;               // of thousand steps of loaders: it dies before it takes it
    // GPUs.
    uint64_t device_pool, device_memory, device_linger_s;
    uint32_t copy_us;         // a piece of work in a stream takes, at most
    uint32_t transfer_deaths; // of thousand steps of transfer processes
    uint32_t driver_hangs;    // of thousand of them that end: not for a while
    uint32_t driver_delays;   // of thousand rounds that call the driver: it returns seconds later
    uint32_t lies;            // of thousand rounds of transfer processes
    // Faults that happen to somebody at some time: how often each kind comes up.
    uint32_t faults, gap_us;
    uint32_t weights[16];

    uint32_t group_count;
    struct group groups[GROUPS_MOST];
} plan;

// From sim.random.
void plan_make(void);

#endif
