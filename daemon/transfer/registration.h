// Pins the slots of a ring for a GPU in pieces of whole slots, each at most GPU_REGISTER_MOST bytes. A copy must not
// cross from one registration into another, and pinning everything in one call would hold locks of the driver for so
// long that other processes stall.
//
// In a ring with ragged fields, the part of each slot that is allocated at first is a piece. The rest, its tail, is
// pinned when a batch needs it, in pieces that begin every GPU_REGISTER_MOST bytes.
#ifndef FEEDD_DAEMON_TRANSFER_REGISTRATION_H
#define FEEDD_DAEMON_TRANSFER_REGISTRATION_H

#include "base/error.h"
#include "gpu/gpu.h"
#include "shm/ring.h"

// Nothing more can be done with a pool; the GPU and its other pools are as they were.
#define POOL_REFUSED (-ECANCELED)
// There is no memory to be pinned now. There may be later.
#define PINNING_LACKS (-EAGAIN)

struct registration {
    struct gpu *gpu;
    uint8_t *data;
    uint64_t bytes;       // to be pinned at first
    uint64_t piece_bytes; // of each piece but the last
    uint64_t piece_step;  // from one piece to the next
    uint64_t done_bytes;  // of `bytes`
    uint64_t slot_bytes;
    uint32_t slot_count;
    uint64_t *tails; // of each slot, bytes pinned behind its first piece; NULL: slots are pinned whole
    uint64_t tail_bytes;
};

// -EOVERFLOW: what a slot has at first is too large for one registration.
int registration_begin(struct registration *registration, struct gpu *gpu, const struct ring *ring,
                       struct error *error);

// Registers the next piece. 1: there are more; 0: all are registered; or an error, after which none is.
int registration_step(struct registration *registration, struct error *error);

// Pins the slot's first `bytes`, which are allocated, as far as they are not pinned. No copy of the slot may be under
// way.
int registration_cover(struct registration *registration, uint32_t slot, uint64_t bytes, struct error *error);

// How many bytes may be copied at once, from byte `at` of a slot on.
uint64_t registration_run(const struct registration *registration, uint64_t at);

// What a failure to pin memory for batches means for their pool: PINNING_LACKS, POOL_REFUSED, or, if the GPU is lost,
// its error and sentence.
int registration_judge(struct gpu *gpu, int err, struct error *error);

void registration_end(struct registration *registration);

#endif
