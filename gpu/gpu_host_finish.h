// gpu_finish on the simulated GPU.
#ifndef FEEDD_GPU_GPU_HOST_FINISH_H
#define FEEDD_GPU_GPU_HOST_FINISH_H

#include "base/error.h"
#include "gpu/finish.h"

int host_finish(struct gpu *gpu, gpu_stream stream, const struct finish_batch *batch, struct error *error);

#endif
