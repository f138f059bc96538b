// The loader's side of the ring: claim a chunk, report it, close holes, sleep. A transfer process is the only
// loader of its pools' rings.
#ifndef FEEDD_SHM_RING_LOADER_H
#define FEEDD_SHM_RING_LOADER_H

#include "base/scope.h"
#include "shm/ring.h"

#define RING_REPAIR_CHUNK UINT32_MAX

// A job that this loader owns until it calls ring_chunk_done or ring_chunk_failed.
struct ring_claim {
    uint32_t slot;
    uint32_t chunk;        // or RING_REPAIR_CHUNK
    uint32_t chunk_count;  // of the batch
    uint32_t first_sample; // in the batch
    uint32_t count;
    uint64_t epoch;
    uint64_t first_position; // of first_sample, in the epoch's order
};

// Takes the next job for `owner` (non-zero): a repair or a chunk whose owner died, or else the next chunk in the
// queue. False when there is nothing to do.
bool ring_claim(struct ring *ring, uint32_t owner, struct ring_claim *claim);

// The stripe that the supervisor wants (stats_loader.stripe). A word that names none means no stripe.
void ring_take_stripe(struct ring *ring, uint64_t word);

// Marks a sample (its index in the batch) of a chunk that the caller owns as unreadable.
void ring_skip_sample(struct ring *ring, const struct ring_claim *claim, uint32_t sample);

// The bytes are in place, except those of `skipped` samples. True when the supervisor must be woken: write the
// eventfd.
bool ring_chunk_done(struct ring *ring, const struct ring_claim *claim, uint32_t skipped) MUST_CHECK;

// The chunk cannot be filled and the feed is to fail. True as above.
bool ring_chunk_failed(struct ring *ring, const struct ring_claim *claim, int code, uint32_t file,
                       uint64_t offset, uint64_t sample) MUST_CHECK;

// Does a claimed repair: moves readable samples from the end of the batch into the holes. It can be repeated from
// the start, so a loader that dies in the middle does no harm. With ragged fields: see ragged_repair.h. Report it with
// ring_chunk_done, or with ring_chunk_failed if it returns -EPROTO.
int ring_repair(struct ring *ring, const struct ring_claim *claim);

// Sleeps until there may be work, at most timeout_ms.
void ring_wait_for_work(struct ring *ring, int timeout_ms);

// For a process that is about to sleep by other means than ring_wait_for_work (a transfer process): says so, and
// returns whether there is work after all. Pairs with ring_take_sleeper.
bool ring_announce_sleep(struct ring *ring) MUST_CHECK;

#endif
