// The engine in threads of its own, for all pools of the GPU: nvJPEG waits for its hardware in the caller's thread, and
// the process has other batches to copy. One thread prepares a job while the engine decodes the other's.
//
// Jobs are done in the order in which they were submitted. Otherwise batches end in pairs, come back in pairs, and are
// prepared in pairs, while the engine has nothing to do.
#ifndef FEEDD_DAEMON_TRANSFER_ENGINE_QUEUE_H
#define FEEDD_DAEMON_TRANSFER_ENGINE_QUEUE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/error.h"
#include "daemon/transfer/engine.h"

// The submitter's. It leaves it and what it refers to alone until it is done.
struct engine_job {
    STAILQ_ENTRY(engine_job) link;
    // Called by a thread before the images are decoded, and may set them and their count. NULL: nothing is to be done.
    void (*prepare)(struct engine_job *job);
    struct engine_image *images;
    uint32_t count;
    int err; // of engine_decode
    struct error error;
    _Atomic bool done; // written by a thread, last
};

struct engine_queue;

// Opens the engine, too; fails as engine_open does.
int engine_queue_open(struct engine_queue **queue, struct gpu *gpu, struct error *error);
// All jobs are done. NULL is fine.
void engine_queue_close(struct engine_queue *queue);

void engine_queue_submit(struct engine_queue *queue, struct engine_job *job);

// When the engine last moved: now, or when it began with the job that it has not done. The library may hang in its
// hardware, of which the process's main thread knows nothing. NULL is fine.
uint64_t engine_queue_moved_ns(const struct engine_queue *queue, uint64_t now);

// Whether it is at its first job with images, for which the library sets itself up. NULL is fine.
bool engine_queue_warms_up(const struct engine_queue *queue);

#endif
