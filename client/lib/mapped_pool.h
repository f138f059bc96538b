// The GPU side of a handle: the pool, mapped read-only, and this consumer's release words.
#ifndef FEEDD_CLIENT_LIB_MAPPED_POOL_H
#define FEEDD_CLIENT_LIB_MAPPED_POOL_H

#include "base/error.h"
#include "gpu/gpu.h"
#include "gpu/gpu_slots.h"
#include "shm/ring.h"

// Belongs to one attachment. Without a GPU it is all 0.
struct mapped_pool {
    struct gpu *gpu;        // the handle's
    struct gpu_slots slots; // of the ring's slots
    // word[slot]: the last fill of that slot that was released; the daemon reads them
    _Atomic uint64_t *words;
    uint64_t words_bytes;
    uint64_t words_address; // as the GPU sees them
};

// Imports the memory and maps the words; `ring` is the pool's. The caller keeps the descriptors.
int mapped_pool_open(struct mapped_pool *pool, struct gpu *gpu, const struct ring *ring, int memory_fd,
                     uint64_t memory_bytes, int words_fd, struct error *error);

// A slot has memory of its own from here on; the caller keeps the descriptor. `last` is the last fill of it that this
// consumer was granted, and has released. -EPROTO: the daemon did not wait for that release to come, or its memory is
// no larger than the slot's.
int mapped_pool_grow_slot(struct mapped_pool *pool, uint32_t slot, uint64_t bytes, int memory_fd,
                          uint64_t last, struct error *error);

// Waits until the GPU has done all work that this process queued, so that nothing uses the memory any more; then
// unmaps. Fine to call again.
void mapped_pool_close(struct mapped_pool *pool);

// Makes work that is queued on `stream` after this call wait for the batch in that slot.
int mapped_pool_wait(const struct mapped_pool *pool, const struct ring *ring, uint32_t slot, uint64_t fill,
                     gpu_stream stream, struct error *error);

// The slot may be reused when `stream` gets here.
int mapped_pool_release(const struct mapped_pool *pool, uint32_t slot, uint64_t fill, gpu_stream stream,
                        struct error *error);

#endif
