// Marks in streams of NVIDIA GPUs: CUDA's events.
#ifndef FEEDD_GPU_GPU_CUDA_MARKS_H
#define FEEDD_GPU_GPU_CUDA_MARKS_H

#include "base/error.h"
#include "gpu/gpu.h"

int cuda_mark_create(struct gpu *gpu, gpu_mark *mark, struct error *error);
void cuda_mark_destroy(struct gpu *gpu, gpu_mark mark);
int cuda_mark_put(struct gpu *gpu, gpu_stream stream, gpu_mark mark, struct error *error);
int cuda_mark_span(struct gpu *gpu, gpu_mark first, gpu_mark second, int64_t *ns, struct error *error);

#endif
