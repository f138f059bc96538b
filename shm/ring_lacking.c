#include "shm/ring_lacking.h"

#include "base/sizes.h"
#include "shm/ring_places.h"
#include "shm/ring_skips.h"
#include "shm/ring_words.h"

uint32_t ring_take_skips(const struct ring *ring, uint32_t slot, uint64_t *skips) {
    const struct ring_slot *own = &ring->dispatched[slot];
    uint64_t counted = 0, set = 0;
    for (uint32_t i = 0; i < own->chunk_count; i++)
        counted += chunk_skipped(atomic_load_explicit(&ring_chunks(ring, slot)[i], memory_order_relaxed));
    for (uint32_t i = 0; i < ring->header->skip_words; i++) {
        // Relaxed: ring_slot_poll has acquired them with the chunks.
        skips[i] = atomic_load_explicit(&ring_skips(ring, slot)[i], memory_order_relaxed);
        uint64_t left = own->count - min_u64(64ull * i, own->count); // places from this word on
        if (left < 64 && skips[i] >> left)
            return 0;
        set += (uint64_t)__builtin_popcountll(skips[i]);
    }
    return set == counted ? (uint32_t)set : 0;
}

// The bytes are neither what they were nor what they should be.
uint32_t ring_read_again(struct ring *ring, uint32_t slot) {
    struct ring_slot *batch = ring_slot(ring, slot);
    struct ring_slot *own = &ring->dispatched[slot];
    own->skipped = 0;
    __atomic_store_n(&batch->skipped, 0, __ATOMIC_RELAXED);
    ring_clear_all_skips(ring, slot);
    ring_places_restore_end(ring, slot);
    atomic_store_explicit(&batch->repair, chunk_word(CHUNK_IDLE, 0, 0), memory_order_relaxed);
    atomic_store_explicit(&batch->recovered, own->chunk_count, memory_order_relaxed);
    for (uint32_t i = 0; i < own->chunk_count; i++)
        // Release: the next owner sees all of the above.
        atomic_store_explicit(&ring_chunks(ring, slot)[i], chunk_word(CHUNK_RECOVERED, 0, 0),
                              memory_order_release);
    return own->chunk_count;
}
