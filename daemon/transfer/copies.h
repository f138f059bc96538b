// Copies the batches of one pool to the GPU.
//
// A claim waits until every consumer that was granted the slot's last batch has released it on its stream, as told by
// the words that their streams write to host memory. Our own streams never wait for another process, so a slow, stopped
// or hostile process holds up only those that share its pool. Then the copy is queued, followed on the same stream by
// the slot's two sequence words: one on the GPU, on which consumers' streams wait, and one in our own memory, which
// tells us that the copy is done and the chunk can be reported.
#ifndef FEEDD_DAEMON_TRANSFER_COPIES_H
#define FEEDD_DAEMON_TRANSFER_COPIES_H

#include "base/error.h"
#include "daemon/transfer/copy_marks.h"
#include "daemon/transfer/images.h"
#include "daemon/transfer/registration.h"
#include "gpu/gpu.h"
#include "gpu/gpu_slots.h"
#include "shm/ring.h"
#include "shm/ring_loader.h"
#include "shm/trace.h"

struct copy {
    struct ring_claim claim;
    uint32_t source;    // slot of the feed's ring
    uint64_t fill;      // of the slot
    uint64_t bytes;     // to copy
    uint32_t count;     // samples
    bool again;         // a process has died with it in hand
    uint32_t mark;      // behind it in its stream, or NO_MARK
    uint32_t place;     // while its images are decoded: images_begin's
    gpu_stream stream;  // ... and on which they are
    uint64_t since_ns;  // claimed
    uint64_t queued_ns; // once it is under way
    uint64_t lacked_ns; // while it is waiting: since when there has been no memory to pin; 0: there was
    uint64_t again_ns;  // ... and when to try again
};

// One consumer's release words: word[slot] is the last fill of that slot that its stream has released. Written by its
// GPU or by the consumer; NULL: no such consumer.
struct release_words {
    const _Atomic uint64_t *words;
    uint64_t bytes;
};

struct copies {
    struct gpu *gpu;
    struct ring source;          // the feed's
    struct ring *ring;           // the pool's
    struct registration *pinned; // of the source's slots
    struct images *images;       // NULL: batches are copied as they are
    uint32_t owner;
    const struct gpu_slots *slots; // of the pool's slots
    gpu_stream streams[COPY_STREAMS];
    uint32_t next_stream;
    _Atomic uint64_t *done; // word[slot]: the last fill that was copied; written by the GPU
    uint64_t done_bytes, done_address;
    struct copy *waiting, *under_way;     // slot_count places each
    struct copy decoding[IMAGES_AT_ONCE]; // in the order in which they were begun
    uint32_t waiting_count, decoding_count, under_way_count;
    uint64_t bytes_under_way;
    struct release_words consumers[RING_MAX_CONSUMERS];
    uint64_t copied, copied_bytes; // in total
    struct latency *latencies;     // of the GPU, in the statistics; NULL: nowhere
    struct trace_writer *trace;    // ... and its timeline
    uint32_t pool;                 // in it
    struct copy_marks marks;       // likewise
};

int copies_open(struct copies *copies, struct gpu *gpu, struct ring *ring, uint32_t owner,
                const struct gpu_slots *slots, struct error *error);
// All queued work must be done (gpu_synchronize).
void copies_close(struct copies *copies);

// Claims, queues and reports all that it can. *wake: the supervisor must be woken. POOL_REFUSED: the pool has
// failed (registration.h). -EIO: the GPU is lost.
int copies_step(struct copies *copies, uint64_t now_ns, bool *wake, struct error *error);

// The consumers, as bits, whose streams a copy has been waiting for since before `before_ns`. since_ns[number of the
// consumer] is when the longest such wait began.
uint64_t copies_held_up(const struct copies *copies, uint64_t before_ns,
                        uint64_t since_ns[RING_MAX_CONSUMERS]);

#endif
