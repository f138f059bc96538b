// The statistics region: one file beside the socket, mapped read-only by whoever may read it, without asking the
// daemon. Writers only add to their own counters; readers take no lock and compute all rates.
#ifndef FEEDD_SHM_STATS_H
#define FEEDD_SHM_STATS_H

#include <sys/types.h>

#include "base/error.h"
#include "shm/layout.h"

// The region's path for a socket path: "<socket>.stats".
int stats_path(const char *socket, char *path, size_t bytes);

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

#endif
