#include "shm/ring_places.h"

#include <string.h>

#include "base/sizes.h"
#include "shm/ring_supervisor.h"

void ring_places_publish(struct ring *ring, uint32_t slot) {
    if (!ring->places)
        return;
    const uint64_t *own = ring_own_places(ring, slot);
    uint64_t count = (ring->dispatched[slot].chunk_count + 2ull) * ring->header->ragged_count;
    for (uint64_t i = 0; i < count; i++)
        atomic_store_explicit(&ring_places(ring, slot)[i], own[i], memory_order_relaxed);
    for (uint32_t i = 0; ring->attempts && i < ring->dispatched[slot].count; i++)
        atomic_store_explicit(&ring_attempts(ring, slot)[i], ring_own_attempts(ring, slot)[i],
                              memory_order_relaxed);
}

void ring_places_publish_end(struct ring *ring, uint32_t slot) {
    uint64_t ragged = ring->header->ragged_count,
             first = (ring->dispatched[slot].chunk_count + 1ull) * ragged;
    for (uint64_t i = first; ring->places && i < first + ragged; i++)
        atomic_store_explicit(&ring_places(ring, slot)[i], ring_own_places(ring, slot)[i],
                              memory_order_relaxed);
}

void ring_places_restore_end(struct ring *ring, uint32_t slot) {
    uint64_t ragged = ring->header->ragged_count;
    uint64_t *end = ring_own_places(ring, slot) + ring->dispatched[slot].chunk_count * ragged;
    memcpy(end + ragged, end, ragged * sizeof *end);
    ring_places_publish_end(ring, slot);
}

// A copy is one chunk, without anything that was left out.
void ring_places_copy(struct ring *ring, uint32_t slot, const struct ring *from, uint32_t source) {
    uint32_t ragged = ring->header->ragged_count;
    if (!ragged || ragged != from->header->ragged_count)
        return;
    const uint64_t *begin = ring_own_places(from, source);
    const uint64_t *end = begin + (from->dispatched[source].chunk_count + 1ull) * ragged;
    uint64_t *own = ring_own_places(ring, slot);
    memcpy(own, begin, ragged * sizeof *begin);
    memcpy(own + ragged, end, ragged * sizeof *end);
    memcpy(own + 2ull * ragged, end, ragged * sizeof *end);
}

uint64_t ring_ragged_bytes(const struct ring *ring, uint32_t slot) {
    uint32_t ragged = ring->header->ragged_count;
    uint64_t bytes = 0;
    if (!ragged)
        return 0;
    const uint64_t *begin = ring_own_places(ring, slot);
    const uint64_t *end = begin + (ring->dispatched[slot].chunk_count + 1ull) * ragged;
    for (uint32_t i = 0; i < ragged; i++)
        bytes += end[i] - begin[i];
    return bytes;
}

uint64_t ring_batch_end(const struct ring *ring, uint32_t slot) {
    uint32_t ragged = ring->header->ragged_count;
    const uint64_t *end = ring_own_places(ring, slot) + (ring->dispatched[slot].chunk_count + 1ull) * ragged;
    uint64_t bytes = ring->header->values_offset;
    for (uint32_t i = 0; i < ragged; i++)
        bytes = max_u64(bytes, end[i]);
    return bytes;
}

bool ring_find_values(const struct ring *ring, uint32_t slot, uint32_t ragged, uint32_t first, uint32_t end,
                      struct ring_values *values) {
    const struct ring_header *header = ring->header;
    const _Atomic uint64_t *places = ring_places(ring, slot) + ragged - 1;
    if (end > header->chunks_per_slot || first > end)
        return false;
    // Relaxed: whoever asks has claimed a chunk of the batch or was granted it, and has acquired them with that.
    values->begin = atomic_load_explicit(&places[first * header->ragged_count], memory_order_relaxed);
    values->end = atomic_load_explicit(&places[end * header->ragged_count], memory_order_relaxed);
    return ring_values_fit(header, values);
}
