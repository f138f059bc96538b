// The ring of one feed: batch-sized slots in shared memory, filled by loaders in chunks, read by clients.
//
// Four parties. The supervisor decides which batch goes into which slot, sees when it is complete and gives the
// slot out again; it never touches sample bytes. Loaders claim chunks and fill them. A GPU's transfer process reads
// the feed's ring and is the one loader of its pool's. Clients map the object read-only. A party may be killed between
// any two instructions: what it owned is in the chunk word itself.
// Functions take plain pointers to the mapping, so that threads in a test exercise the same code.
#ifndef FEEDD_SHM_RING_H
#define FEEDD_SHM_RING_H

#include "shm/layout.h"
#include "shm/order.h"

struct ring {
    struct ring_header *header;
    uint8_t *data; // slot 0; NULL in the supervisor, which maps the control part alone, and of a device pool
    uint64_t mapped_bytes;
    uint32_t repairs_seen; // a loader's own: repairs_wanted when it last found none to do
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

// ---- Loader ------------------------------------------------------------------------------------------------

#define RING_REPAIR_CHUNK UINT32_MAX

// A piece of work that this loader owns until it calls one of ring_chunk_done and ring_chunk_failed.
struct ring_claim {
    uint32_t slot;
    uint32_t chunk;        // or RING_REPAIR_CHUNK
    uint32_t chunk_count;  // of the batch
    uint32_t first_sample; // in the batch
    uint32_t count;
    uint64_t epoch;
    uint64_t first_position; // of first_sample, in the epoch's order
};

// Takes the next free chunk for `owner` (non-zero): true, or false when there is nothing to do.
bool ring_claim(struct ring *ring, uint32_t owner, struct ring_claim *claim);

// Marks a sample of the batch (index within the batch) of a chunk one owns as unreadable.
void ring_skip_sample(struct ring *ring, const struct ring_claim *claim, uint32_t sample);

// The bytes are in place (`skipped` samples excepted). True when the supervisor must be woken: write the eventfd.
bool ring_chunk_done(struct ring *ring, const struct ring_claim *claim, uint32_t skipped) MUST_CHECK;

// The chunk cannot be filled and the feed is to fail. True as above.
bool ring_chunk_failed(struct ring *ring, const struct ring_claim *claim, int code, uint32_t file,
                       uint64_t offset, uint64_t sample) MUST_CHECK;

// Does a claimed repair: moves readable samples from the batch's end into the holes. Repeatable from the start, so a
// loader that dies in the middle leaves nothing wrong. Report it with ring_chunk_done.
void ring_repair(struct ring *ring, const struct ring_claim *claim);

// Whether a batch was ever queued, which is so only once all pages are there: before that only the control part may be
// touched.
bool ring_has_begun(const struct ring *ring);

// Sleeps until there may be work, at most timeout_ms.
void ring_wait_for_work(struct ring *ring, int timeout_ms);

// For a transfer process that is about to sleep: says so, and returns whether there is work after all. Pairs with
// ring_take_sleeper.
bool ring_announce_sleep(struct ring *ring) MUST_CHECK;

// ---- Supervisor --------------------------------------------------------------------------------------------

// Puts a batch into a free slot and queues its chunks; loaders see it after ring_wake_loaders. A batch of no samples
// is complete at once. False when the queue is full (only after recoveries): try again later.
bool ring_dispatch(struct ring *ring, uint32_t slot, uint64_t rank, uint64_t sequence,
                   const struct batch_place *place) MUST_CHECK;

// As ring_dispatch for a batch that is copied from slot `source` of `from`, where it is complete: the same place,
// samples and skips. Its one chunk is for the transfer process. `unread`: see ring_slot.
bool ring_dispatch_copy(struct ring *ring, uint32_t slot, const struct ring *from, uint32_t source,
                        uint64_t unread) MUST_CHECK;

// Wakes as many sleeping loaders as there are chunks for.
void ring_wake_loaders(struct ring *ring, uint32_t chunks);

// Whether the one who fills this ring sleeps and is to be woken by other means than ring_wake_loaders: a transfer
// process, which waits for several rings and for messages. Asks once a sleep.
bool ring_take_sleeper(struct ring *ring) MUST_CHECK;

// About how many batches loaders have yet to begin with.
uint64_t ring_unclaimed(const struct ring *ring);

enum ring_slot_state {
    RING_SLOT_FILLING,
    RING_SLOT_READY,
    RING_SLOT_FAILED,
};

// Looks at a dispatched slot. When the last chunk is done and samples were skipped, it asks for the repair (FILLING)
// and, when that is done, says READY with ring_slot.skipped set.
enum ring_slot_state ring_slot_poll(struct ring *ring, uint32_t slot);

// The reason of the first failure since it was last taken, if one is complete.
struct ring_error {
    int code;
    uint32_t slot;
    uint32_t file;
    uint64_t offset;
    uint64_t sample;
};
bool ring_take_failure(struct ring *ring, struct ring_error *failure);
// Forgets it if it is one of this slot.
void ring_forget_failure(struct ring *ring, uint32_t slot);

// Before looking for finished batches after a wake-up: from here on loaders signal again.
void ring_supervisor_arm(struct ring *ring);

// Loaders may still claim chunks of it or write into it. A FAILED slot can be busy; one that is READY never is.
bool ring_slot_busy(const struct ring *ring, uint32_t slot);

// Gives the slot's chunk words back to idle; the slot must not be busy.
void ring_slot_free(struct ring *ring, uint32_t slot);

// After process `owner` and all its reads are gone: frees what it had claimed and queues it again. Returns
// the number of chunks, or -EAGAIN when the queue is full: call again later. Arms like ring_supervisor_arm,
// since `owner` may have died between taking the flag and writing the eventfd: look for finished batches afterwards.
int ring_recover(struct ring *ring, uint32_t owner);

#endif
