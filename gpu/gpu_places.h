// The slots of a device pool as a process maps them: all in one piece of memory, but for those that have grown. These
// have memory of their own, which a batch that needed more was given, and leave their part of the first memory unused.
#ifndef FEEDD_GPU_GPU_PLACES_H
#define FEEDD_GPU_GPU_PLACES_H

#include "gpu/gpu.h"

struct gpu_places {
    struct gpu_memory first;
    uint64_t first_bytes;   // of each slot in it
    uint32_t count;         // of slots
    struct gpu_memory *own; // of each slot; zeros: it has not grown. NULL: none can
};

static inline bool gpu_place_has_grown(const struct gpu_places *places, uint32_t slot) {
    return places->own && places->own[slot].bytes;
}

static inline uint64_t gpu_place_address(const struct gpu_places *places, uint32_t slot) {
    return gpu_place_has_grown(places, slot) ? places->own[slot].address
                                             : places->first.address + slot * places->first_bytes;
}

static inline uint64_t gpu_place_bytes(const struct gpu_places *places, uint32_t slot) {
    return gpu_place_has_grown(places, slot) ? places->own[slot].bytes : places->first_bytes;
}

// Of all of them.
static inline uint64_t gpu_places_bytes(const struct gpu_places *places) {
    uint64_t bytes = places->first.bytes;
    for (uint32_t slot = 0; places->own && slot < places->count; slot++)
        bytes += places->own[slot].bytes;
    return bytes;
}

// The slot has `memory` from here on. Unmaps its earlier own memory, which nothing that is queued may use.
static inline void gpu_place_move(struct gpu *gpu, struct gpu_places *places, uint32_t slot,
                                  const struct gpu_memory *memory) {
    if (gpu_place_has_grown(places, slot))
        gpu_free(gpu, &places->own[slot]);
    places->own[slot] = *memory;
}

// Unmaps everything, likewise.
static inline void gpu_places_free(struct gpu *gpu, struct gpu_places *places) {
    for (uint32_t slot = 0; places->own && slot < places->count; slot++)
        if (places->own[slot].bytes)
            gpu_free(gpu, &places->own[slot]);
    if (places->first.bytes)
        gpu_free(gpu, &places->first);
    free(places->own);
    *places = (struct gpu_places){0};
}

#endif
