// The supervisor's side of the ring: give out slots, see batches complete, take a dead loader's work back.
#ifndef FEEDD_SHM_RING_SUPERVISOR_H
#define FEEDD_SHM_RING_SUPERVISOR_H

#include "base/scope.h"
#include "order/partition.h"
#include "shm/ring.h"

// The name of a batch: no two batches of one ring have the same.
struct ring_batch {
    uint64_t run;
    uint64_t rank;
    uint64_t sequence; // among the rank's batches of the run
};

// Puts a batch into a free slot and queues its chunks; loaders see it after ring_wake_loaders. A batch of no samples
// is complete at once. False when the queue is full (only after recoveries): try again later.
bool ring_dispatch(struct ring *ring, uint32_t slot, const struct ring_batch *name,
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
