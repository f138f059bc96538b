// Copies batches with images that a GPU makes (`decode gpu`) into a pool: the JPEGs of the feed's ring become planes,
// with the engine or, what that refuses, with libjpeg in this process; finished pixels and all other fields are copied.
//
// A batch is begun, which hands its JPEGs to the engine's threads, and ended once they are decoded. The next ones are
// begun meanwhile.
#ifndef FEEDD_DAEMON_TRANSFER_IMAGES_H
#define FEEDD_DAEMON_TRANSFER_IMAGES_H

#include "base/error.h"
#include "daemon/transfer/engine_queue.h"
#include "daemon/transfer/registration.h"
#include "shm/ring.h"

// Batches: one that the engine decodes, one whose JPEGs are copied meanwhile, and one that is ended or begun.
#define IMAGES_AT_ONCE 3u

// Neither the engine nor libjpeg can decode an image: a loader that has been taken over let it through.
#define IMAGES_REFUSED POOL_REFUSED

struct images;

// A batch to copy.
struct images_batch {
    uint32_t source, slot; // slots of the feed's ring and of the pool
    uint32_t count;        // samples
    // A process has died with this batch in hand: perhaps the engine's library cannot take one of the images.
    bool without_engine;
};

// Whether the pool's ring has fields with images that are to be decoded: those that differ from the feed's.
bool images_wanted(const struct ring *source, const struct ring *pool);

// `engine` may be NULL; then libjpeg decodes everything. The rings outlive it.
// `tolerant`: what cannot be decoded is delivered black; else the batch with it is refused.
int images_open(struct images **images, struct gpu *gpu, struct engine_queue *engine,
                const struct ring *source, const struct ring *pool, uint64_t pool_address, bool tolerant,
                struct error *error);
// Whether the engine has done what it was given. NULL is fine.
bool images_are_settled(const struct images *images);
// After that, and when all queued work is done. NULL is fine.
void images_close(struct images *images);

// Whether another batch can be begun.
bool images_have_room(const struct images *images);
// *place says which one it is until it has been ended. Errors are those of the GPU and of pinning memory
// (registration_judge), and IMAGES_REFUSED. After PINNING_LACKS, the batch has not been begun.
int images_begin(struct images *images, gpu_stream stream, const struct images_batch *batch, uint32_t *place,
                 struct error *error);
bool images_are_decoded(const struct images *images, uint32_t place);
// Queues the rest on the stream. 1: it must be called again, because libjpeg has decoded only some of them, or has no
// memory at the moment. Errors are those of the GPU, and IMAGES_REFUSED.
int images_end(struct images *images, uint32_t place, struct error *error);

// Host memory that is registered with the GPU. NULL: none.
uint64_t images_pinned_bytes(const struct images *images);

// How many images the engine and libjpeg have decoded, how many came finished, and how many nobody can decode.
struct images_counts {
    uint64_t by_engine, by_library, finished, refused;
};
struct images_counts images_count(const struct images *images);

#endif
