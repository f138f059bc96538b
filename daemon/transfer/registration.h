// Pins the slots of a ring for a GPU, in pieces of whole slots and at most GPU_REGISTER_MOST: a copy must not cross
// from one registration into another, and pinning in one call would hold locks of the driver, which stall other
// processes too, for as long as it takes.
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

// Registers the next piece: 1 there is more to do, 0 all is registered, or an error, after which nothing is.
int registration_step(struct registration *registration, struct error *error);

void registration_end(struct registration *registration);

#endif
