// The readers' side of the statistics region: single loaders, which stats_read.h sums up per feed.
#ifndef FEEDD_SHM_STATS_LOADERS_H
#define FEEDD_SHM_STATS_LOADERS_H

#include "shm/layout.h"

struct stats_loader_snapshot {
    uint32_t record; // which of the region's, which another loader may have had before
    uint64_t feed, pid, heartbeat_ns;
    uint32_t reader; // enum reader_kind, or anything: a loader writes it
    uint64_t counters[LOADER_COUNTERS];
};

// The loaders at work, by record. Returns how many there are.
uint32_t stats_snapshot_loaders(const struct stats_region *region,
                                struct stats_loader_snapshot list[STATS_MAX_LOADERS]);

#endif
