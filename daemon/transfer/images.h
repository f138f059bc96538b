// Copies batches with images that a GPU makes (`decode gpu`) into a pool: the JPEGs of the feed's ring become planes,
// with the engine or, what that refuses, with libjpeg in this process; finished pixels and all other fields are copied.
//
// Decoding is done within the call, since nvJPEG reads headers, and waits for its hardware, in the caller's thread.
#ifndef FEEDD_DAEMON_TRANSFER_IMAGES_H
#define FEEDD_DAEMON_TRANSFER_IMAGES_H

#include "base/error.h"
#include "daemon/transfer/engine.h"
#include "shm/ring.h"

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
int images_open(struct images **images, struct gpu *gpu, struct engine *engine, const struct ring *source,
                const struct ring *pool, uint64_t pool_address, struct error *error);
// All queued work must be done. NULL is fine.
void images_close(struct images *images);

// Queues all copies of the batch. Errors are those of the GPU, or -EBADMSG if neither engine nor libjpeg can decode a
// JPEG that a loader has found to be sound.
int images_queue(struct images *images, gpu_stream stream, const struct images_batch *batch,
                 struct error *error);

// How many images the engine and libjpeg have decoded, and how many came finished.
struct images_counts {
    uint64_t by_engine, by_library, finished;
};
struct images_counts images_count(const struct images *images);

#endif
