// The slots of a device pool as a process maps them. They share one piece of memory, except for those that have grown:
// these have memory of their own, and their part of the first memory stays unused.
#ifndef FEEDD_GPU_GPU_SLOTS_H
#define FEEDD_GPU_GPU_SLOTS_H

#include "gpu/gpu.h"

struct gpu_slots {
    struct gpu_memory first;
    uint64_t first_bytes;   // of each slot in it
    uint32_t count;         // of slots
    struct gpu_memory *own; // of each slot; zeros: it has not grown. NULL: none can
};

static inline bool gpu_slot_has_grown(const struct gpu_slots *slots, uint32_t slot) {
    return slots->own && slots->own[slot].bytes;
}

static inline uint64_t gpu_slot_address(const struct gpu_slots *slots, uint32_t slot) {
    return gpu_slot_has_grown(slots, slot) ? slots->own[slot].address
                                           : slots->first.address + slot * slots->first_bytes;
}

static inline uint64_t gpu_slot_bytes(const struct gpu_slots *slots, uint32_t slot) {
    return gpu_slot_has_grown(slots, slot) ? slots->own[slot].bytes : slots->first_bytes;
}

// Of all of them.
static inline uint64_t gpu_slots_bytes(const struct gpu_slots *slots) {
    uint64_t bytes = slots->first.bytes;
    for (uint32_t slot = 0; slots->own && slot < slots->count; slot++)
        bytes += slots->own[slot].bytes;
    return bytes;
}

// Gives the slot `memory`. Unmaps memory that it had of its own before, which no queued work may use.
static inline void gpu_slot_set_memory(struct gpu *gpu, struct gpu_slots *slots, uint32_t slot,
                                       const struct gpu_memory *memory) {
    if (gpu_slot_has_grown(slots, slot))
        gpu_free(gpu, &slots->own[slot]);
    slots->own[slot] = *memory;
}

// Unmaps everything, likewise.
static inline void gpu_slots_free(struct gpu *gpu, struct gpu_slots *slots) {
    for (uint32_t slot = 0; slots->own && slot < slots->count; slot++)
        if (slots->own[slot].bytes)
            gpu_free(gpu, &slots->own[slot]);
    if (slots->first.bytes)
        gpu_free(gpu, &slots->first);
    free(slots->own);
    *slots = (struct gpu_slots){0};
}

#endif
