// The streams that a consumer takes batches on in turn: batch i on stream i % count.
#ifndef FEEDD_BENCH_GPU_STREAMS_H
#define FEEDD_BENCH_GPU_STREAMS_H

#include "bench/gpu/work.h"

#define STREAMS_MOST 8u

struct streams {
    const struct work *work;
    uint32_t count;
    work_stream stream[STREAMS_MOST];
    work_event reached[STREAMS_MOST];
};

// `count`: 1 to STREAMS_MOST, all of high priority.
void streams_open(struct streams *streams, const struct work *work, uint32_t count);

work_stream streams_of(const struct streams *streams, uint64_t batch);

// Work queued on the first stream from now on runs after everything already queued on any of them.
void streams_gather(const struct streams *streams);

// Work queued on any of them from now on runs after everything already queued on the first.
void streams_spread(const struct streams *streams);

#endif
