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

#else

void gpu_ranges_open(void) {}

void gpu_range_begin(const char *name) {
    (void)name;
}

void gpu_range_end(void) {}

#endif
