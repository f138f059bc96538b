// The memory of a ring, registered with an io_uring a piece at a time: registering a page takes longer than reading
// into it once, and nothing should wait for that. Reads work without registration, too.
#ifndef FEEDD_DAEMON_LOADER_READ_URING_BUFFERS_H
#define FEEDD_DAEMON_LOADER_READ_URING_BUFFERS_H

#include <liburing.h>

#include "shm/ring.h"

struct uring_buffers {
    const struct ring *ring;    // NULL: nothing of it is or will be registered
    uint64_t piece_bytes;       // from the start of a piece to that of the next
    uint64_t held_bytes;        // of each piece, what is registered; the last piece may have less
    uint32_t count, registered; // pieces, and those that are registered
    bool *held;                 // which
    uint64_t may_ns,
        due_ns; // from when an idle loader, and any, registers the next piece; 0: it has read nothing
    int err;    // negative: why no more can be registered
};

// Before the io_uring is enabled: makes room for all pieces, and registers none. Where that cannot be done (before
// Linux 5.13), there are no pieces. With ragged fields, a piece is what a slot has in any case: io_uring would allocate
// the rest, which no batch may ever need.
void uring_buffers_open(struct uring_buffers *buffers, struct io_uring *uring, const struct ring *ring);
// After the io_uring.
void uring_buffers_close(struct uring_buffers *buffers);

// Registers pieces whose slots have all been given a batch, and so have memory, if it is time for that: when the
// loader is `idle`, or has not been for a while, but not while it reads the first batches. False: there is nothing to
// do now.
bool uring_buffers_add(struct uring_buffers *buffers, struct io_uring *uring, uint64_t now, bool idle);

// Whether all pieces that batches have been put into are registered.
bool uring_buffers_are_complete(const struct uring_buffers *buffers);

// The number of the piece that has this memory; -1: none that is registered.
static inline int uring_buffers_find(const struct uring_buffers *buffers, const void *memory,
                                     uint64_t bytes) {
    if (!buffers->registered || (const uint8_t *)memory < buffers->ring->data)
        return -1;
    uint64_t offset = (uint64_t)((const uint8_t *)memory - buffers->ring->data);
    uint64_t piece = offset / buffers->piece_bytes;
    bool inside = piece < buffers->count && offset % buffers->piece_bytes + bytes <= buffers->held_bytes;
    return inside && buffers->held[piece] ? (int)piece : -1;
}

#endif
