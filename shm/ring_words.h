// Chunk words, taken apart and put together. Only the ring's own files use it.
#ifndef FEEDD_SHM_RING_WORDS_H
#define FEEDD_SHM_RING_WORDS_H

#include "shm/ring.h"

#define CHUNK_MAX_SKIPPED CHUNK_MAX_SAMPLES

static inline uint64_t chunk_word(enum chunk_state state, uint32_t owner, uint32_t skipped) {
    return (uint64_t)state | (uint64_t)skipped << 8 | (uint64_t)owner << 32;
}

static inline enum chunk_state chunk_state(uint64_t word) {
    return (enum chunk_state)(word & 0xff);
}
// Of a batch's chunk: no loader works on it, nor will one.
static inline bool chunk_ended(uint64_t word) {
    return chunk_state(word) == CHUNK_DONE || chunk_state(word) == CHUNK_FAILED ||
           chunk_state(word) == CHUNK_IDLE; // withdrawn
}
static inline uint32_t chunk_skipped(uint64_t word) {
    return (uint32_t)(word >> 8) & CHUNK_MAX_SKIPPED;
}
static inline uint32_t chunk_owner(uint64_t word) {
    return (uint32_t)(word >> 32);
}

static inline _Atomic uint64_t *ring_chunks(const struct ring *ring, uint32_t slot) {
    return (_Atomic uint64_t *)((uint8_t *)ring->control + ring->header->chunks_offset) +
           (uint64_t)slot * ring->header->chunks_per_slot;
}

static inline _Atomic uint32_t *ring_queue_entry(const struct ring *ring, uint64_t entry) {
    return (_Atomic uint32_t *)((uint8_t *)ring->control + ring->header->queue_offset) +
           (entry & (ring->header->queue_entries - 1));
}

#endif
