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
    uint64_t queued;
    uint32_t
        urgent_seen; // a loader's own: all jobs that urgent_wanted counted when it had this value were claimed
};

// What a ring is made for. ring_plan fills in slot_offset of the fields.
struct ring_plan {
    uint32_t slot_count;
    uint32_t batch_size;
    uint32_t field_count;
    struct ring_field fields[RING_MAX_FIELDS];
    uint64_t samples, seed, fingerprint, world_size;
    uint32_t order_version;
    // the slots lie in a device pool: the object has only the control part, and a batch is one chunk
    bool on_device;
    // Results.
    uint32_t chunks_per_slot;
    uint32_t chunk_samples;
    uint64_t slot_bytes;
    uint64_t data_offset; // also the size of the control part
    uint64_t total_bytes;
};

// Computes the results of a plan. -EOVERFLOW when a number exceeds 64 bits or a limit of the layout.
int ring_plan(struct ring_plan *plan, struct error *error);

// A ring is made in three steps. The first takes microseconds whatever the size; the others take milliseconds for
// every 32 MiB, and any thread may do them. All fail with a sentence: -ENOSPC says what is needed and what is
// free, -EFBIG names RLIMIT_FSIZE (if SIGXFSZ is ignored; by default it ends the process).
//
// Makes the shared-memory object and gives it its size, without a page in it. It has no name and cannot be given
// one, so nothing is left in /dev/shm whatever dies. *fd is read-write; *read_fd cannot be made writable by
// another user.
int ring_create(const struct ring_plan *plan, int *fd, int *read_fd, struct error *error);
// Allocates the control part and writes the header. Then the ring can be mapped, but nobody may touch a batch yet.
int ring_allocate_control(const struct ring_plan *plan, int fd, struct error *error);
// Allocates the rest. Then batches can be dispatched.
int ring_allocate(const struct ring_plan *plan, int fd, struct error *error);

enum ring_access {
    RING_CONTROL, // supervisor, transfer process of a pool's ring: control part, read-write
    RING_FILL,    // loader: all, read-write
    RING_READ,    // client, transfer process of the feed's ring: all, read-only
};

// Maps the object, copies its header, and checks the copy: magic, version, every offset against the size of the object.
// What lies in the object may change under whoever maps it; the copy does not.
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

// The memory of a device pool: its slots, then a sequence word per slot, which says what the slot was last filled
// with (ring_slot.fill). The GPU writes it after each copy; consumers' streams wait on it.
static inline uint64_t ring_pool_word(const struct ring_header *header, uint32_t slot) {
    return header->slot_count * header->slot_bytes + ring_slot_word(slot);
}
static inline uint64_t ring_pool_bytes(const struct ring_header *header) {
    return ring_pool_word(header, header->slot_count);
}

#endif
