// The simulated GPU.
//
// FEEDD_SIMULATED_GPU, read by gpu_open, holds what is to be special about it, with commas between:
//   memory=BYTES   how much it has; 1 GiB unless said. What this process allocated counts, in all handles of that GPU
//   copy_us=N      every copy into it takes so long
//   fail_copy=N    from the handle's Nth copy on every operation fails: the GPU is lost
//   stall_copy=N   the handle's Nth copy, and with it all that follows in its stream, never ends
//   no_export      it cannot export memory, so that it cannot be opened
//
// Its own rules are CUDA's where CUDA refuses something: a registration may not overlap another of this process, a copy
// comes from within one of them and goes to memory of the handle that is writable, and words lie in either.
// Unlike CUDA's, the default stream does its work within the call.
#ifndef FEEDD_GPU_GPU_HOST_H
#define FEEDD_GPU_GPU_HOST_H

#include "base/error.h"
#include "gpu/gpu.h"

#define GPU_HOST_FAULTS "FEEDD_SIMULATED_GPU"
#define GPU_HOST_MOST   16u // simulated GPUs: HOST-0 to HOST-15

int gpu_host_open(struct gpu **gpu, uint32_t ordinal, struct error *error);

// Queues a "kernel": the function runs when all before it in the stream is done, in a thread of the stream.
int gpu_host_stream_call(struct gpu *gpu, gpu_stream stream, void (*function)(void *), void *argument,
                         struct error *error);

#endif
