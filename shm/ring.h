// The ring of one feed: batch-sized slots in shared memory, filled by loaders in chunks, read by clients.
//
// Four parties. The supervisor decides which batch goes into which slot, sees when it is complete and gives the
// slot out again; it never touches sample bytes. Loaders claim chunks and fill them. A GPU's transfer process reads
// the feed's ring and is the one loader of its pool's. Clients map the object read-only. A party may be killed between
// any two instructions: what it owned is in the chunk word itself.
// Functions take plain pointers to the mapping, so that threads in a test exercise the same code.
#ifndef FEEDD_SHM_RING_H
#define FEEDD_SHM_RING_H

#include "base/error.h"
#include "shm/layout.h"

struct ring {
    struct ring_header *header;
    uint8_t *data; // slot 0; NULL in the supervisor, which maps the control part alone, and of a device pool
    uint64_t mapped_bytes;
    uint32_t urgent_seen; // a loader's own: every job counted in urgent_wanted up to here has been claimed
};

// What a ring is made for. Fields' slot_offset is filled in by ring_plan.
struct ring_plan {
    uint32_t slot_count;
    uint32_t batch_size;
    uint32_t field_count;
    struct ring_field fields[RING_MAX_FIELDS];
    uint64_t samples, seed, fingerprint, world_size;
    uint32_t order_version;
    // the slots lie in a device pool: the object has the control part alone, a batch is one chunk
    bool on_device;
    // Results.
    uint32_t chunks_per_slot;
    uint32_t chunk_samples;
    uint64_t slot_bytes;
    uint64_t data_offset; // also the bytes of the control part
    uint64_t total_bytes;
};

// Computes the results of a plan. -EOVERFLOW when the numbers go beyond what 64 bits or the layout's limits hold.
int ring_plan(struct ring_plan *plan, struct error *error);

// What there is room for in /dev/shm; UINT64_MAX where it has no bound, 0 where there is none.
uint64_t ring_free_bytes(void);

// Makes the shared-memory object, of which only the control part has its pages yet: it can be mapped, but nobody
// may touch a batch before ring_allocate. It never has a name, so that nothing is left in /dev/shm whatever dies.
// *fd is read-write, *read_fd cannot be made writable by another user. -ENOSPC says what is needed and what is free.
// Supervisor.
int ring_create(const struct ring_plan *plan, int *fd, int *read_fd, struct error *error);

// Allocates all its pages, which takes milliseconds for each 32 MiB; -ENOSPC as above. Any thread.
int ring_allocate(const struct ring_plan *plan, int fd, struct error *error);

enum ring_access {
    RING_CONTROL, // supervisor, transfer process of a pool's ring: control part, read-write
    RING_FILL,    // loader: all, read-write
    RING_READ,    // client, transfer process of the feed's ring: all, read-only
};

// Maps and validates: magic, version, every offset against the size of the object.
int ring_map(struct ring *ring, int fd, enum ring_access access, struct error *error);
void ring_unmap(struct ring *ring);

// Bytes of one sample, all fields together.
static inline uint64_t ring_sample_bytes(const struct ring_field *fields, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += fields[i].sample_bytes;
    return bytes;
}

static inline struct ring_slot *ring_slot(const struct ring *ring, uint32_t slot) {
    return (struct ring_slot *)((uint8_t *)ring->header + ring->header->slots_offset) + slot;
}

static inline uint8_t *ring_slot_data(const struct ring *ring, uint32_t slot) {
    return ring->data + (uint64_t)slot * ring->header->slot_bytes;
}

static inline _Atomic uint64_t *ring_skips(const struct ring *ring, uint32_t slot) {
    return (_Atomic uint64_t *)((uint8_t *)ring->header + ring->header->skips_offset) +
           (uint64_t)slot * ring->header->skip_words;
}

// Arrays of a 64-bit word a slot: sequence words, release words. Where a slot's word lies in one; what all take.
static inline uint64_t ring_slot_word(uint32_t slot) {
    return sizeof(uint64_t) * (uint64_t)slot;
}
static inline uint64_t ring_slot_words_bytes(const struct ring_header *header) {
    return ring_slot_word(header->slot_count);
}

// The memory of a device pool: its slots, then a sequence word a slot, which says what the slot was last filled with
// (ring_slot.fill). Written by the GPU behind each copy; consumers' streams wait on it.
static inline uint64_t ring_pool_word(const struct ring_header *header, uint32_t slot) {
    return header->slot_count * header->slot_bytes + ring_slot_word(slot);
}
static inline uint64_t ring_pool_bytes(const struct ring_header *header) {
    return ring_pool_word(header, header->slot_count);
}

#endif
