// The GPUs of NVIDIA, as gpu.c uses them. A build without CUDA's headers has these functions too: they refuse.
#ifndef FEEDD_GPU_GPU_CUDA_H
#define FEEDD_GPU_GPU_CUDA_H

#include "base/error.h"
#include "gpu/gpu.h"

#define GPU_CUDA_MISSING "this build has no GPU support: it was built without CUDA's headers"

// The version of the headers that this was built with, as CUDA writes it (13000); 0: without CUDA.
int gpu_cuda_toolkit(void);

// What the driver is and how many GPUs this process sees.
int gpu_cuda_describe(char *text, size_t bytes, struct error *error);

// The UUID of the GPU that this process counts as `ordinal`; -ENODEV says how many it sees.
int gpu_cuda_uuid(uint32_t ordinal, char uuid[GPU_UUID_BYTES], struct error *error);

// Writes the UUID as the driver has it, if it is visible to this process; `name` may have letters of either case.
int gpu_cuda_find(const char *name, char uuid[GPU_UUID_BYTES], struct error *error);

int gpu_cuda_open(struct gpu **gpu, const char *uuid, struct error *error);

#endif
