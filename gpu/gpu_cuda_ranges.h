// Ranges that NVIDIA's profilers (nsys) show of a thread: NVTX. Nothing happens without a profiler, or in a build whose
// CUDA headers lack those of NVTX.
#ifndef FEEDD_GPU_GPU_CUDA_RANGES_H
#define FEEDD_GPU_GPU_CUDA_RANGES_H

#include <stdint.h>

// Looks for the profiler, which is a library: before a process gives up opening files. Otherwise the first range does.
void gpu_ranges_open(void);

// Ranges of a thread are nested.
void gpu_range_begin(const char *name);
void gpu_range_end(void);

// Ranges of a process may overlap, and end in another thread.
uint64_t gpu_range_start(const char *name);
void gpu_range_stop(uint64_t range);

#endif
