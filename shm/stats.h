// The statistics region: one file beside the socket, mapped read-only by whoever may read it, without asking the
// daemon. Writers only add to their own counters; readers take no lock and compute all rates.
#ifndef FEEDD_SHM_STATS_H
#define FEEDD_SHM_STATS_H

#include <sys/types.h>

#include "shm/layout.h"

// The region's path for a socket path: "<socket>.stats".
int stats_path(const char *socket, char *path, size_t bytes);

// ---- Writers -----------------------------------------------------------------------------------------------

// Supervisor: makes a new file at `path` in place of any old one, with `mode`, belonging to `group` (-1: as
// it comes). *fd stays open for children.
int stats_create(const char *path, uint32_t mode, gid_t group, struct stats_region **region, int *fd,
                 struct error *error);

// Loader, transfer process: maps the one record it may write.
int stats_map_loader(int fd, uint32_t record, struct stats_loader **loader, struct error *error);
int stats_map_gpu(int fd, uint32_t record, struct stats_gpu **gpu, struct error *error);

static inline void stats_add(_Atomic uint64_t *counter, uint64_t amount) {
    // One writer, so a plain add of relaxed halves is enough and cheaper than a locked one.
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + amount, memory_order_relaxed);
}

// Brackets a rewrite of a record's names and identity (seqlock). When a GPU's record goes to another GPU, its counters
// begin at 0 inside the bracket.
void stats_feed_write_begin(struct stats_feed *feed);
void stats_feed_write_end(struct stats_feed *feed);
void stats_gpu_write_begin(struct stats_gpu *gpu);
void stats_gpu_write_end(struct stats_gpu *gpu);

// ---- Readers -----------------------------------------------------------------------------------------------

// A consistent copy of one feed with its loaders' counters summed up, those that are gone included.
struct stats_feed_snapshot {
    uint64_t id;
    char name[STATS_NAME];
    char dataset[STATS_NAME];
    uint64_t started_ns, batch_size, world_size, slot_count, ring_bytes;
    uint64_t slots_ready, slots_filling, consumers, loaders;
    uint64_t feed[FEED_COUNTERS];
    uint64_t loader[LOADER_COUNTERS];
};

// A consistent copy of one GPU.
struct stats_gpu_snapshot {
    char uuid[STATS_NAME];
    char name[STATS_NAME];
    uint64_t started_ns; // since when its counters count
    uint64_t pid, heartbeat_ns;
    uint32_t state; // enum gpu_state, or what a later build writes there
    uint32_t pools;
    uint64_t pinned_bytes, pool_bytes, bus_bytes_per_s;
    uint64_t counters[GPU_COUNTERS];
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

// -ENOENT no such file, -EAGAIN not ready yet, -EPROTO another version or no statistics file (sentence says which).
int stats_open(const char *path, const struct stats_region **region, struct error *error);
void stats_close(const struct stats_region *region);
void stats_snapshot(const struct stats_region *region, struct stats_snapshot *snapshot);

struct counter_text {
    const char *name, *unit, *text;
};
extern const struct counter_text loader_counter_texts[LOADER_COUNTERS];
extern const struct counter_text feed_counter_texts[FEED_COUNTERS];
extern const struct counter_text gpu_counter_texts[GPU_COUNTERS];

// The word for an enum gpu_state: "starting", "running", "backing off", "stopping", or "?".
const char *stats_gpu_state_name(uint32_t state);

#endif
