#include "gpu/gpu_cuda_ranges.h"

#ifdef HAVE_CUDA
#if __has_include(<nvtx3/nvToolsExt.h>)
#define HAVE_RANGES 1
#include <nvtx3/nvToolsExt.h>
#endif
#endif

#ifdef HAVE_RANGES

void gpu_ranges_open(void) {
    nvtxInitialize(NULL);
}

void gpu_range_begin(const char *name) {
    nvtxRangePushA(name);
}

void gpu_range_end(void) {
    nvtxRangePop();
}

uint64_t gpu_range_start(const char *name) {
    return nvtxRangeStartA(name);
}

void gpu_range_stop(uint64_t range) {
    nvtxRangeEnd(range);
}

#else

void gpu_ranges_open(void) {}

void gpu_range_begin(const char *name) {
    (void)name;
}

void gpu_range_end(void) {}

uint64_t gpu_range_start(const char *name) {
    (void)name;
    return 0;
}

void gpu_range_stop(uint64_t range) {
    (void)range;
}

#endif
