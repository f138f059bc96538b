#include "shm/stats_loaders.h"

static uint64_t read_word(const _Atomic uint64_t *word) {
    return atomic_load_explicit(word, memory_order_relaxed);
}

uint32_t stats_snapshot_loaders(const struct stats_region *region,
                                struct stats_loader_snapshot list[STATS_MAX_LOADERS]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < STATS_MAX_LOADERS; i++) {
        const struct stats_loader *loader = &region->loaders[i];
        struct stats_loader_snapshot *snapshot = &list[count];
        // Pairs with the release of the supervisor, which resets the record before it gives it to a feed.
        uint64_t feed = atomic_load_explicit(&region->owners.feed[i], memory_order_acquire);
        uint64_t pid = read_word(&loader->pid);
        if (!feed || !pid)
            continue;
        *snapshot = (struct stats_loader_snapshot){
            .record = i, .feed = feed, .pid = pid, .heartbeat_ns = read_word(&loader->heartbeat_ns)};
        snapshot->reader = atomic_load_explicit(&loader->reader, memory_order_relaxed);
        for (int counter = 0; counter < LOADER_COUNTERS; counter++)
            snapshot->counters[counter] = read_word(&loader->counters[counter]);
        count++;
    }
    return count;
}
