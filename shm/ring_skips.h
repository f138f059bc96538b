// The bitmaps of skipped samples, as the supervisor writes them. Only ring_supervisor.c and
// ring_lacking.c use it.
#ifndef FEEDD_SHM_RING_SKIPS_H
#define FEEDD_SHM_RING_SKIPS_H

#include "base/sizes.h"
#include "shm/ring.h"

static inline void ring_clear_skips(struct ring *ring, uint32_t slot, uint32_t first, uint32_t count) {
    _Atomic uint64_t *skips = ring_skips(ring, slot);
    for (uint32_t sample = first; sample < first + count; sample++)
        atomic_fetch_and_explicit(&skips[sample / 64], ~(1ull << (sample % 64)), memory_order_relaxed);
}

static inline void ring_clear_all_skips(struct ring *ring, uint32_t slot) {
    _Atomic uint64_t *skips = ring_skips(ring, slot);
    for (uint32_t i = 0; i < ring->header->skip_words; i++)
        atomic_store_explicit(&skips[i], 0, memory_order_relaxed);
}

static inline void ring_copy_skips(struct ring *ring, uint32_t slot, const struct ring *from,
                                   uint32_t source) {
    uint32_t words = ring->header->skip_words;
    if (words <= from->header->skip_words)
        for (uint32_t i = 0; i < words; i++)
            atomic_store_explicit(&ring_skips(ring, slot)[i],
                                  atomic_load_explicit(&ring_skips(from, source)[i], memory_order_relaxed),
                                  memory_order_relaxed);
}

#endif
