// A stream of the simulated GPU: a thread that does the queued work in order.
#ifndef FEEDD_GPU_GPU_HOST_STREAM_H
#define FEEDD_GPU_GPU_HOST_STREAM_H

#include <sys/queue.h>

#include "base/error.h"
#include "gpu/gpu.h"

enum host_work_kind {
    HOST_COPY,
    HOST_STALL, // a copy that never ends
    HOST_WRITE,
    HOST_WAIT,
    HOST_CALL,
};

struct host_work {
    STAILQ_ENTRY(host_work) link;
    enum host_work_kind kind;
    uint64_t delay_us;
    void *to;
    const void *from;
    uint64_t bytes;
    void (*call)(void *);
    void *argument;
    uint32_t word_count;
    struct gpu_word words[]; // to write, or one to wait for
};

struct host_stream;

// NULL: out of memory.
struct host_work *host_work_new(enum host_work_kind kind, uint32_t word_count);

int host_stream_start(struct host_stream **stream, struct error *error);

// Takes over `work`. If `stream` is NULL, the work is done within the call.
void host_stream_queue(struct host_stream *stream, struct host_work *work);

// Waits until all queued work is done.
void host_stream_drain(struct host_stream *stream);

// Does the queued work up to a wait that is not over or a copy that never ends; that and everything after it is
// dropped.
void host_stream_end(struct host_stream *stream);

#endif
