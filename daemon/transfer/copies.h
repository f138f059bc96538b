// The batches of one pool on their way to the GPU.
//
// A claim waits until every consumer that was granted what lies in its slot has released it on its stream: the words
// say so, which their streams write into host memory. No stream of ours ever waits for another process, so that one
// that is slow, stopped or hostile holds up nobody but those who share its pool. Then the copy is queued, and behind
// it, on the same stream, the slot's two sequence words: one on the GPU, on which consumers' streams wait, and one in
// our own memory, by which we see that the copy is done and report the chunk.
#ifndef FEEDD_DAEMON_TRANSFER_COPIES_H
#define FEEDD_DAEMON_TRANSFER_COPIES_H

#include "base/error.h"
#include "gpu/gpu.h"
#include "shm/ring.h"
#include "shm/ring_loader.h"

#define COPY_STREAMS 2u // while one writes its words, the other one copies

struct copy {
    struct ring_claim claim;
    uint64_t fill;  // of the slot
    uint64_t bytes; // of the slot that are copied
    uint64_t since_ns;
};

// Release words of one consumer: word[slot] is the last fill of that slot that its stream has released. Written by
// its GPU or by the consumer; NULL: no such consumer.
struct release_words {
    const _Atomic uint64_t *words;
    uint64_t bytes;
};

struct copies {
    struct gpu *gpu;
    struct ring source; // the feed's
    struct ring *ring;  // the pool's
    uint32_t owner;
    uint64_t pool_address;
    gpu_stream streams[COPY_STREAMS];
    uint32_t next_stream;
    _Atomic uint64_t *done; // word[slot]: the last fill that was copied; written by the GPU
    uint64_t done_bytes, done_address;
    struct copy *waiting, *under_way; // slot_count places each
    uint32_t waiting_count, under_way_count;
    uint64_t bytes_under_way;
    struct release_words consumers[RING_MAX_CONSUMERS];
    uint64_t copied, copied_bytes; // ever
};

int copies_open(struct copies *copies, struct gpu *gpu, struct ring *ring, uint32_t owner,
                const struct gpu_memory *memory, struct error *error);
// Everything queued must be done: gpu_synchronize.
void copies_close(struct copies *copies);

// Claims, queues and reports what can be. *wake: the supervisor is to be woken. -EIO: the GPU is lost.
int copies_step(struct copies *copies, uint64_t now_ns, bool *wake, struct error *error);

// The consumers, by bit, for whose streams a copy has waited since before `before_ns`; for each of them since_ns[its
// number] says since when the oldest has.
uint64_t copies_held_up(const struct copies *copies, uint64_t before_ns,
                        uint64_t since_ns[RING_MAX_CONSUMERS]);

#endif
