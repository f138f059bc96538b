// Marks behind the copies of a pool, from which the timeline learns when the GPU made them. Copies that are queued
// together share one. A stream does one thing after another, so copies begin when they are queued, or when those before
// them in their stream end.
#ifndef FEEDD_DAEMON_TRANSFER_COPY_MARKS_H
#define FEEDD_DAEMON_TRANSFER_COPY_MARKS_H

#include "daemon/transfer/gpu_clock.h"
#include "shm/trace.h"

#define COPY_MARKS   32u // at a time; copies beyond that have none
#define COPY_STREAMS 2u  // one copies while the other writes its words
#define NO_MARK      UINT32_MAX

struct copy_mark {
    gpu_mark mark; // NULL: it has not been needed yet
    uint32_t copies, stream;
    uint64_t queued_ns; // the first of them; 0: the event has been written
};

struct copy_marks {
    struct gpu_clock *clock; // NULL: there are no marks
    struct trace_writer *trace;
    uint32_t pool;                   // in the timeline
    uint64_t ended_ns[COPY_STREAMS]; // the last copies of each stream
    struct copy_mark marks[COPY_MARKS];
};

// For one copy or several in a stream: a number, or NO_MARK if no timeline is recorded.
uint32_t copy_marks_take(struct copy_marks *marks, struct gpu *gpu, uint32_t stream, uint64_t now_ns);
// Another copy shares it.
void copy_marks_share(struct copy_marks *marks, uint32_t number);
// Queues it behind the copies. Before the words that say that they are done.
void copy_marks_put(struct copy_marks *marks, uint32_t number, gpu_stream stream);
// A copy is done. With the first of them, the event is written.
void copy_marks_done(struct copy_marks *marks, uint32_t number, uint32_t slot);
// The streams must have been destroyed.
void copy_marks_close(struct copy_marks *marks, struct gpu *gpu);

#endif
