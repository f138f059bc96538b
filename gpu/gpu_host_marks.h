// Marks in streams of simulated GPUs. Their clock runs fast: it gains 0.4 ms per second on the monotonic clock.
#ifndef FEEDD_GPU_GPU_HOST_MARKS_H
#define FEEDD_GPU_GPU_HOST_MARKS_H

#include "base/error.h"
#include "gpu/gpu.h"

int host_mark_create(struct gpu *gpu, gpu_mark *mark, struct error *error);
void host_mark_destroy(struct gpu *gpu, gpu_mark mark);
int host_mark_put(struct gpu *gpu, gpu_stream stream, gpu_mark mark, struct error *error);
int host_mark_span(struct gpu *gpu, gpu_mark first, gpu_mark second, int64_t *ns, struct error *error);

#endif
