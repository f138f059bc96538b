// A thread that keeps the whole GPU computing, with kernels of about a millisecond one after the other on its own
// stream. It records how long each took from the end of the previous one.
#ifndef FEEDD_BENCH_GPU_BUSY_H
#define FEEDD_BENCH_GPU_BUSY_H

#include "bench/gpu/work.h"

struct busy;

// `waves`: the length of a kernel; 0: determine what takes about 1.5 ms.
struct busy *busy_start(const struct work *work, uint32_t waves);

// From here on the kernels count, or no longer count.
void busy_measure(struct busy *busy, bool counts);

struct busy_result {
    uint32_t waves;
    uint64_t kernels;
    double median_s, mean_s;
};

struct busy_result busy_stop(struct busy *busy);

#endif
