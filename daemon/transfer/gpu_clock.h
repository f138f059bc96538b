// The GPU's own clock, aligned with the machine's monotonic clock, for the timeline. Nothing is created before it is
// asked for.
//
// A mark is put into a stream that has nothing else to do, and the machine's clock is read before that and as soon as
// the GPU has reached it: the mark's time is the middle of the two. The clocks drift, so this is repeated.
#ifndef FEEDD_DAEMON_TRANSFER_GPU_CLOCK_H
#define FEEDD_DAEMON_TRANSFER_GPU_CLOCK_H

#include "gpu/gpu.h"

struct gpu_clock {
    struct gpu *gpu; // NULL: nothing has been created
    gpu_stream stream;
    gpu_mark base, next;
    uint64_t base_ns;              // of `base`, on the monotonic clock; 0: not aligned
    uint64_t aligned_ns, tried_ns; // when that last succeeded, and was last attempted
    bool failed;                   // not tried again: a timeline is not worth a failure
};

// Whether gpu_clock_of can answer. Aligns the clocks first if that is due, which takes 0.2 ms at most.
bool gpu_clock_is_aligned(struct gpu_clock *clock, struct gpu *gpu);

// Queues a mark. If that fails, there are no more times.
void gpu_clock_put(struct gpu_clock *clock, gpu_stream stream, gpu_mark mark);

// When the GPU reached one of its marks, on the monotonic clock. 0: it has not, or the clocks are not aligned.
uint64_t gpu_clock_of(struct gpu_clock *clock, gpu_mark mark);

void gpu_clock_close(struct gpu_clock *clock);

#endif
