// The readers' side of the statistics region: snapshots, without a lock and without asking the daemon.
#ifndef FEEDD_SHM_STATS_READ_H
#define FEEDD_SHM_STATS_READ_H

#include "base/error.h"
#include "shm/layout.h"

struct latency_snapshot {
    uint64_t sum_ns;
    uint64_t buckets[LATENCY_BUCKETS];
};

// A consistent copy of one feed. Its loaders' counters are summed, including those of loaders that are gone.
struct stats_feed_snapshot {
    uint64_t id;
    char name[STATS_NAME];
    char dataset[STATS_NAME];
    uint64_t started_ns, batch_size, world_size, slot_count, ring_bytes;
    uint64_t slots_ready, slots_filling, consumers, loaders;
    uint64_t feed[FEED_COUNTERS];
    uint64_t loader[LOADER_COUNTERS];
    uint64_t gpus; // bit i: it has a pool on the GPU of record i
    struct latency_snapshot feed_latency[FEED_LATENCIES];
    struct latency_snapshot loader_latency[LOADER_LATENCIES];
};

// A consistent copy of one GPU.
struct stats_gpu_snapshot {
    char uuid[STATS_NAME];
    char name[STATS_NAME];
    uint64_t started_ns; // when its counters started
    uint64_t pid, heartbeat_ns;
    uint32_t state; // enum gpu_state, or a value from a later build
    uint32_t pools;
    uint64_t pinned_bytes, pool_bytes, bus_bytes_per_s;
    uint64_t counters[GPU_COUNTERS];
    uint32_t record; // its number in stats_feed_snapshot.gpus
    struct latency_snapshot latency[GPU_LATENCIES];
};

struct stats_snapshot {
    uint64_t taken_ns;
    uint64_t pid, started_ns, heartbeat_ns;
    bool stopped;
    uint64_t sessions, ring_bytes, ring_memory;
    uint32_t feed_count;
    struct stats_feed_snapshot feeds[STATS_MAX_FEEDS];
    uint32_t gpu_count;
    struct stats_gpu_snapshot gpus[STATS_MAX_GPUS];
};

// -ENOENT no such file, -EAGAIN not ready yet, -EPROTO another version or not a statistics file (the sentence says
// which).
int stats_open(const char *path, const struct stats_region **region, struct error *error);
void stats_close(const struct stats_region *region);
void stats_snapshot(const struct stats_region *region, struct stats_snapshot *snapshot);

struct counter_text {
    const char *name, *unit, *text;
};
extern const struct counter_text loader_counter_texts[LOADER_COUNTERS];
extern const struct counter_text feed_counter_texts[FEED_COUNTERS];
extern const struct counter_text gpu_counter_texts[GPU_COUNTERS];

struct latency_text {
    const char *name, *text;
};
extern const struct latency_text loader_latency_texts[LOADER_LATENCIES];
extern const struct latency_text feed_latency_texts[FEED_LATENCIES];
extern const struct latency_text gpu_latency_texts[GPU_LATENCIES];

// Copies a text that a process which has gone wrong could have written: what is not printable ASCII becomes '?', and
// the copy ends. Returns `copy`.
char *stats_copy_text(char copy[STATS_NAME], const char text[STATS_NAME]);

// The word for an enum gpu_state: "starting", "running", "backing off", "stopping", or "?".
const char *stats_gpu_state_name(uint32_t state);

#endif
