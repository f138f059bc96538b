// The ring of one feed: batch-sized slots in shared memory, filled by loaders in chunks, read by clients.
//
// There are four parties. The supervisor decides which batch goes into which slot, sees when it is complete and
// reuses the slot; it never touches sample bytes. Loaders claim chunks and fill them. A GPU's transfer process
// reads the feed's ring and is the only loader of its pool's ring. Clients map the object read-only. A party may
// be killed between any two instructions; the chunk words say what it owned.
//
// Functions take plain pointers to the mapping, so that threads in a test run the same code.
#ifndef FEEDD_SHM_RING_H
#define FEEDD_SHM_RING_H

#include "base/error.h"
#include "shm/layout.h"

struct ring {
    // This process's own copy of the header, as it was when it was checked. Read-only.
    const struct ring_header *header;
    struct ring_control *control; // shared: loaders can write anything there, at any time
    uint8_t *data; // slot 0; NULL in the supervisor, which maps only the control part, and for a device pool
    uint64_t mapped_bytes;
    // The supervisor's own (ring_supervise): what it put into the slots and how many entries into the queue. It does
    // not rely on what loaders can write.
    struct ring_slot *dispatched;
    uint64_t *places;  // of ragged fields, as in the ring; NULL: there are none
    uint8_t *attempts; // the same
    uint64_t queued;
    uint32_t
        urgent_seen; // a loader's own: all jobs that urgent_wanted counted when it had this value were claimed
    // A loader's own: which of how many equal stripes of a slot's chunks it claims first (stripe < stripes, or both 0).
    uint32_t stripe, stripes;
};

enum ring_access {
    RING_CONTROL, // supervisor, transfer process of a pool's ring: control part, read-write
    RING_FILL,    // loader: all, read-write
    RING_READ,    // client, transfer process of the feed's ring: all, read-only
};

// Maps the object, copies its header, and checks the copy: magic, version, every offset against the size of the object.
// What lies in the object may change under whoever maps it; the copy does not.
int ring_map(struct ring *ring, int fd, enum ring_access access, struct error *error);
void ring_unmap(struct ring *ring);

// The memory of a ring that is not planned yet, mapped in advance by a loader.
struct ring_memory {
    void *memory; // NULL: none
    uint64_t bytes;
    uint64_t device, inode; // of the object
};

// Maps it for writing, with page tables for its `bytes`, which are allocated, unless it has another size by now. Leaves
// `memory` empty if that fails.
void ring_memory_map(struct ring_memory *memory, int fd, uint64_t bytes);
void ring_memory_unmap(struct ring_memory *memory);
// ring_map for RING_FILL that uses the map if it is of the same object. Afterwards `memory` is empty in any case.
int ring_map_prepared(struct ring *ring, int fd, struct ring_memory *memory, struct error *error);

// Where the values of a ragged field begin, and where they end: bytes in a slot.
struct ring_values {
    uint64_t begin, end;
};

// The places of a slot: see ring_header.places_offset.
static inline uint64_t ring_slot_places(const struct ring_header *header) {
    return (header->chunks_per_slot + 2ull) * header->ragged_count;
}
static inline _Atomic uint64_t *ring_places(const struct ring *ring, uint32_t slot) {
    return (_Atomic uint64_t *)((uint8_t *)ring->control + ring->header->places_offset) +
           slot * ring_slot_places(ring->header);
}

// The attempts of a slot: see ring_header.attempts_offset, which must not be 0.
static inline _Atomic uint8_t *ring_attempts(const struct ring *ring, uint32_t slot) {
    return (_Atomic uint8_t *)((uint8_t *)ring->control + ring->header->attempts_offset) +
           (uint64_t)slot * ring->header->batch_size;
}

static inline bool ring_values_fit(const struct ring_header *header, const struct ring_values *values) {
    return values->begin >= header->values_offset && values->begin <= values->end &&
           values->end <= header->slot_bytes;
}

// Of the chunks `first` to `end` - 1 of the batch in a slot. False: loaders have written over it, and it is not within
// the slot. `ragged` is the field's number, from 1.
bool ring_find_values(const struct ring *ring, uint32_t slot, uint32_t ragged, uint32_t first, uint32_t end,
                      struct ring_values *values);

// Bytes of one sample, all fields together, but for ragged ones.
static inline uint64_t ring_sample_bytes(const struct ring_field *fields, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += fields[i].sample_bytes;
    return bytes;
}

static inline struct ring_slot *ring_slot(const struct ring *ring, uint32_t slot) {
    return (struct ring_slot *)((uint8_t *)ring->control + ring->header->slots_offset) + slot;
}

static inline uint8_t *ring_slot_data(const struct ring *ring, uint32_t slot) {
    return ring->data + (uint64_t)slot * ring->header->slot_bytes;
}

static inline _Atomic uint64_t *ring_skips(const struct ring *ring, uint32_t slot) {
    return (_Atomic uint64_t *)((uint8_t *)ring->control + ring->header->skips_offset) +
           (uint64_t)slot * ring->header->skip_words;
}

// Arrays with a 64-bit word per slot (sequence words, release words): where the word of a slot lies, and their
// size.
static inline uint64_t ring_slot_word(uint32_t slot) {
    return sizeof(uint64_t) * (uint64_t)slot;
}
static inline uint64_t ring_slot_words_bytes(const struct ring_header *header) {
    return ring_slot_word(header->slot_count);
}

// What a slot has from the start. With ragged fields, it grows when a batch needs more.
static inline uint64_t ring_first_bytes(const struct ring_header *header) {
    return header->ragged_count ? header->slot_allocated_bytes : header->slot_bytes;
}

// The memory of a device pool: so many bytes for each slot, then a sequence word per slot, which says what the slot
// was last filled with (ring_slot.fill). The GPU writes it after each copy; consumers' streams wait on it. A slot that
// grows gets memory of its own (gpu/gpu_slots.h); its word stays here.
static inline uint64_t ring_pool_word(const struct ring_header *header, uint32_t slot) {
    return header->slot_count * ring_first_bytes(header) + ring_slot_word(slot);
}
static inline uint64_t ring_pool_bytes(const struct ring_header *header) {
    return ring_pool_word(header, header->slot_count);
}

#endif
