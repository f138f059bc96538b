// A thread that keeps the whole GPU computing, with kernels of about a millisecond one after the other on a stream of
// its own, and notes how long each took from the end of the one before.
#ifndef FEEDD_BENCH_GPU_BUSY_H
#define FEEDD_BENCH_GPU_BUSY_H

#include "bench/gpu/work.h"

struct busy;

// `waves`: how long a kernel is, or 0: find out what takes about 1.5 ms.
struct busy *busy_start(const struct work *work, uint32_t waves);

// From here on the kernels count, or do no longer.
void busy_measure(struct busy *busy, bool counts);

struct busy_result {
    uint32_t waves;
    uint64_t kernels;
    double median_s, mean_s;
};

struct busy_result busy_stop(struct busy *busy);

#endif
