// The supervisor's side of the ring: fill slots, see batches complete, take back the work of a dead loader.
#ifndef FEEDD_SHM_RING_SUPERVISOR_H
#define FEEDD_SHM_RING_SUPERVISOR_H

#include "base/scope.h"
#include "order/partition.h"
#include "shm/ring.h"

// The name of a batch: no two batches in the life of a ring have the same. A batch is dispatched again when its lane
// goes back.
struct ring_batch {
    uint64_t run;
    uint64_t rank;
    uint64_t sequence; // among the rank's batches of the run
};

// Call it once, after ring_map and before any loader is started: the rest needs what it allocates. ring_unmap frees it.
int ring_supervise(struct ring *ring, struct error *error) MUST_CHECK;

// What was dispatched into a slot, with the samples that were skipped once the slot is READY.
static inline const struct ring_slot *ring_dispatched(const struct ring *ring, uint32_t slot) {
    return &ring->dispatched[slot];
}

// Where the values of ragged fields are to lie, as ring_header.places_offset says: to be written before ring_dispatch
// and ring_dispatch_again, for the batch that is dispatched. A ring without ragged fields has none.
static inline uint64_t *ring_own_places(const struct ring *ring, uint32_t slot) {
    return ring->places + slot * ring_slot_places(ring->header);
}

// Which samples stand there, as ring_header.attempts_offset says: to be written at the same time, if it is not 0.
static inline uint8_t *ring_own_attempts(const struct ring *ring, uint32_t slot) {
    return ring->attempts + (uint64_t)slot * ring->header->batch_size;
}

// Bytes of ragged fields in the batch that was dispatched, as it is delivered.
uint64_t ring_ragged_bytes(const struct ring *ring, uint32_t slot);

// Where that batch ends in the slot: what a copy of it needs. With ragged fields only.
uint64_t ring_batch_end(const struct ring *ring, uint32_t slot);

// Puts a batch into a free slot and queues its chunks; sleeping loaders see it after ring_wake_loaders. A batch
// without samples is complete at once. False when the queue is full, which takes many deaths of loaders: try again
// after the next batch is finished.
bool ring_dispatch(struct ring *ring, uint32_t slot, const struct ring_batch *name,
                   const struct batch_place *place) MUST_CHECK;

// Like ring_dispatch, for a batch that was dispatched into another slot, where it will not be finished: its chunks are
// claimed before anything in the queue. Needs no room there, and wakes loaders.
void ring_dispatch_again(struct ring *ring, uint32_t slot, const struct ring_batch *name,
                         const struct batch_place *place);

// Like ring_dispatch, for a batch that is copied from slot `source` of `from`, where it is complete: the same
// name, place, samples and skips. Its one chunk is for the transfer process. `unread`: see ring_slot.
bool ring_dispatch_copy(struct ring *ring, uint32_t slot, const struct ring *from, uint32_t source,
                        uint64_t unread) MUST_CHECK;

// Wakes one sleeping loader per chunk.
void ring_wake_loaders(struct ring *ring, uint32_t chunks);

// Whether the transfer process that fills this ring is asleep and must be woken by other means than
// ring_wake_loaders: it waits for several rings and for messages. True once per sleep.
bool ring_take_sleeper(struct ring *ring) MUST_CHECK;

// False: the claim cursor is where no loader moves it, behind all entries of the queue or beyond the last one. Somebody
// has written over it, and loaders will find no batch. Relaxed: only the supervisor adds entries, and before that the
// cursor cannot pass them.
static inline bool ring_queue_is_sound(const struct ring *ring) {
    uint64_t cursor = atomic_load_explicit(&ring->control->claim_cursor, memory_order_relaxed);
    uint64_t passed = cursor / ring->header->chunks_per_slot;
    return passed <= ring->queued && ring->queued - passed <= ring->header->queue_entries;
}

// About how many batches no loader has begun yet.
uint64_t ring_unclaimed(const struct ring *ring);

enum ring_slot_state {
    RING_SLOT_FILLING,
    RING_SLOT_READY,
    RING_SLOT_LACKING, // with ragged fields: all is done, but samples were skipped
    RING_SLOT_FAILED,
    RING_SLOT_BROKEN, // no loader that works as it should leaves what is there
};

// Looks at a dispatched slot. When all chunks are done and samples were skipped, it asks for the repair (FILLING)
// and, when that is done, returns READY with the number skipped in ring_dispatched. With ragged fields it returns
// LACKING, because sizes have to be looked at first.
enum ring_slot_state ring_slot_poll(struct ring *ring, uint32_t slot);

// Of a LACKING slot: asks for the repair. The supervisor has written to ring_own_places where the values end without
// the samples that were skipped (ring_lacking.h); it continues as after ring_slot_poll. The other way is to dispatch
// the batch again into the same slot.
void ring_close_up(struct ring *ring, uint32_t slot, uint32_t skipped);

// The first failure since this was last called, if it is written down completely.
struct ring_error {
    int code;
    uint32_t slot;
    uint32_t file;
    uint64_t offset;
    uint64_t sample;
};
bool ring_take_failure(struct ring *ring, struct ring_error *failure);
// Forgets it if it is a failure in this slot.
void ring_forget_failure(struct ring *ring, uint32_t slot);

// Call it after a wake-up, before looking for finished batches: from here on loaders signal again.
void ring_supervisor_arm(struct ring *ring);

// Whether loaders may still claim chunks of it or write to it. A FAILED slot can be busy; a READY one never is.
bool ring_slot_busy(const struct ring *ring, uint32_t slot);

// Whether `owner` has claimed something of it and has not reported that.
bool ring_slot_claimed_by(const struct ring *ring, uint32_t slot, uint32_t owner);

// Nobody wants the batch in this slot: what no loader has claimed is not claimed any more. The slot is free once it is
// not busy.
void ring_slot_withdraw(struct ring *ring, uint32_t slot);

// Makes the slot's chunks IDLE; the slot must not be busy.
void ring_slot_free(struct ring *ring, uint32_t slot);

// Call it once process `owner` executes nothing any more, even if reads of it are still under way: forgets what it was
// about to tell the supervisor, and wakes another loader for what it was woken for. Arms like ring_supervisor_arm.
void ring_recover_signals(struct ring *ring, uint32_t owner);

// Call it once process `owner` and all of its reads are gone: makes what it had claimed claimable again, before
// anything in the queue. Returns the number of jobs; never fails. Arms like ring_supervisor_arm, because `owner`
// may have died after it took the flag and before it wrote the eventfd: look for finished batches afterwards.
int ring_recover(struct ring *ring, uint32_t owner);

#endif
