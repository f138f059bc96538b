// Pins the slots of a ring for a GPU in pieces of whole slots, each at most GPU_REGISTER_MOST bytes. A copy must not
// cross from one registration into another, and pinning everything in one call would hold locks of the driver for so
// long that other processes stall.
#ifndef FEEDD_DAEMON_TRANSFER_REGISTRATION_H
#define FEEDD_DAEMON_TRANSFER_REGISTRATION_H

#include "base/error.h"
#include "gpu/gpu.h"
#include "shm/ring.h"

struct registration {
    struct gpu *gpu;
    uint8_t *data;
    uint64_t bytes;       // of all slots
    uint64_t piece_bytes; // of each piece but the last
    uint64_t done_bytes;  // registered so far
};

// -EOVERFLOW: a slot is too large for one registration.
int registration_begin(struct registration *registration, struct gpu *gpu, const struct ring *ring,
                       struct error *error);

// Registers the next piece. 1: there are more; 0: all are registered; or an error, after which none is.
int registration_step(struct registration *registration, struct error *error);

void registration_end(struct registration *registration);

#endif
