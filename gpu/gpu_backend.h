// What gpu.c needs of the implementations: CUDA's, and the simulated one.
#ifndef FEEDD_GPU_GPU_BACKEND_H
#define FEEDD_GPU_GPU_BACKEND_H

#include "base/error.h"
#include "gpu/gpu.h"

#define GPU_HOST_MOST 16u // simulated GPUs: HOST-0 to HOST-15

// The version of the toolkit that this was built with, as CUDA writes it (13000); 0: without CUDA.
int gpu_cuda_toolkit(void);

// What the driver is and how many GPUs this process sees.
int gpu_cuda_describe(char *text, size_t bytes, struct error *error);

// The UUID of the GPU that this process counts as `ordinal`; -ENODEV says how many it sees.
int gpu_cuda_uuid(uint32_t ordinal, char uuid[GPU_UUID_BYTES], struct error *error);

// Writes the UUID as the driver has it, if it is visible to this process; `name` may have letters of either case.
int gpu_cuda_find(const char *name, char uuid[GPU_UUID_BYTES], struct error *error);

int gpu_cuda_open(struct gpu **gpu, const char *uuid, struct error *error);
int gpu_host_open(struct gpu **gpu, uint32_t ordinal, struct error *error);

#endif
