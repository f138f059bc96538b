// NVIDIA GPUs, as gpu.c uses them. A build without CUDA's headers has these functions too; there they fail.
#ifndef FEEDD_GPU_GPU_CUDA_H
#define FEEDD_GPU_GPU_CUDA_H

#include "base/error.h"
#include "gpu/gpu.h"

#define GPU_CUDA_MISSING "this build has no GPU support: it was built without CUDA's headers"

// The version of the CUDA headers that this was built with, as in CUDA_VERSION (13000); 0: built without CUDA.
int gpu_cuda_toolkit(void);

// The driver's version and how many GPUs this process sees.
int gpu_cuda_describe(char *text, size_t bytes, struct error *error);

// The UUID of the GPU with that ordinal in this process; the error for -ENODEV says how many GPUs it sees.
int gpu_cuda_uuid(uint32_t ordinal, char uuid[GPU_UUID_BYTES], struct error *error);

// Looks up a UUID among the GPUs visible to this process and writes it in the driver's spelling; the case of `name`
// does not matter.
int gpu_cuda_find(const char *name, char uuid[GPU_UUID_BYTES], struct error *error);

int gpu_cuda_open(struct gpu **gpu, const char *uuid, struct error *error);

#endif
