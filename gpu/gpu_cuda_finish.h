// gpu_finish on NVIDIA GPUs: the kernel of finish.cu, compiled by nvcc into this program.
#ifndef FEEDD_GPU_GPU_CUDA_FINISH_H
#define FEEDD_GPU_GPU_CUDA_FINISH_H

#include "base/error.h"
#include "gpu/finish.h"

#ifdef HAVE_FINISH
#define CUDA_FINISH cuda_finish
#else
#define CUDA_FINISH NULL
#endif

int cuda_urgent_stream_create(struct gpu *gpu, gpu_stream *stream, struct error *error);

// Whether this build has the kernel.
bool cuda_can_finish(void);

// Fine if it has not been loaded.
void cuda_finish_unload(struct gpu *gpu);

int cuda_finish(struct gpu *gpu, gpu_stream stream, const struct finish_batch *batch, struct error *error);

#endif
