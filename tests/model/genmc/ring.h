// A ring in memory for the harnesses.
#ifndef FEEDD_TESTS_MODEL_GENMC_RING_H
#define FEEDD_TESTS_MODEL_GENMC_RING_H

#include "tests/model/genmc/genmc.h"

#include "shm/ring_loader.h"
#include "shm/ring_supervisor.h"

// The memory of a ring, and its header, which is constant so that the compiler can do without most reads of it: fewer
// steps for GenMC. A chunk is one sample.
#define RING_MEMORY(name, SLOTS, CHUNKS, ENTRIES, ON_DEVICE)                                                 \
    struct name {                                                                                            \
        struct ring_control control;                                                                         \
        struct ring_slot slots[SLOTS];                                                                       \
        _Atomic uint64_t chunks[(SLOTS) * (CHUNKS)];                                                         \
        _Atomic uint64_t skips[SLOTS];                                                                       \
        _Atomic uint32_t queue[ENTRIES];                                                                     \
    };                                                                                                       \
    static struct name name;                                                                                 \
    static struct ring_slot name##_own[SLOTS];                                                               \
    /* functions, because GenMC takes no copies of constants apart, or to constant addresses */              \
    __attribute__((noinline)) static struct ring_control *name##_control(void) {                             \
        return &name.control;                                                                                \
    }                                                                                                        \
    __attribute__((noinline)) static struct ring_slot *name##_dispatched(void) {                             \
        return name##_own;                                                                                   \
    }                                                                                                        \
    static const struct ring_header name##_header = {                                                        \
        .slot_count = (SLOTS),                                                                               \
        .chunks_per_slot = (CHUNKS),                                                                         \
        .chunk_samples = 1,                                                                                  \
        .batch_size = (CHUNKS),                                                                              \
        .queue_entries = (ENTRIES),                                                                          \
        .skip_words = 1,                                                                                     \
        .slots_offset = offsetof(struct name, slots),                                                        \
        .chunks_offset = offsetof(struct name, chunks),                                                      \
        .skips_offset = offsetof(struct name, skips),                                                        \
        .queue_offset = offsetof(struct name, queue),                                                        \
        .slot_bytes = sizeof(uint64_t),                                                                      \
        .on_device = (ON_DEVICE),                                                                            \
        .field_count = (ON_DEVICE), /* only a copy to a device asks for it */                                \
        .fields = {{.sample_bytes = sizeof(uint64_t)}},                                                      \
    }

// Each process has its own.
#define RING_OF(name) ((struct ring){.header = &name##_header, .control = name##_control()})
#define RING_OF_SUPERVISOR(name)                                                                             \
    ((struct ring){.header = &name##_header, .control = name##_control(), .dispatched = name##_dispatched()})

#endif
