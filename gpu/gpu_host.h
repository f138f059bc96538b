// The simulated GPU.
//
// FEEDD_SIMULATED_GPU, read by gpu_open, sets its properties and faults, separated by commas:
//   memory=BYTES   how much memory it has; 1 GiB by default. All that this process has allocated on that GPU counts
//   open_ms=N      opening it takes this many milliseconds
//   register_ms=N, unregister_ms=N, create_ms=N, import_ms=N   so does each call that pins host memory, unpins it,
//                  allocates memory, or maps another process's
//   submit_ms=N    so does each call that queues a copy
//   slow_every=N   only every Nth of these calls by the handle takes so long
//   copy_us=N      every copy to it takes this many microseconds
//   fail_copy=N    from the handle's Nth copy on, every operation fails: the GPU is lost
//   stall_copy=N   the handle's Nth copy never ends, and neither does anything after it on its stream
//   stall_register=N the handle's Nth call that pins host memory never ends
//   pin_most=N     a call that pins more than N bytes of host memory fails
//   pin_lacks=N    only the handle's first N such calls fail, for want of memory
//   crash_create=N the handle's Nth allocation of memory ends the process
//   crash_bytes=N  an allocation of N bytes or more ends the process
//   no_export      it cannot export memory, so it cannot be opened
//   no_engine      it has no engine that decodes JPEG (daemon/transfer/engine.h)
//   no_engine_on=N HOST-N, which is not HOST-0, has none
//   engine_at_ms=N its engine cannot be opened for want of memory until CLOCK_MONOTONIC has reached N milliseconds
//   first_image_ms=N its engine takes this many milliseconds for the first image that the process has it decode
//   refuse_image=N its engine refuses every Nth image
//   crash_image=N  its engine ends the process with the Nth image that the process has it decode
//   stall_image=N  its engine never ends the Nth image that the process has it decode
//
// It refuses what CUDA refuses: a registration may not overlap another one of this process, a copy must come from
// within one registration and go to writable memory of the handle, and words must be in one or the other. Unlike
// CUDA's, the default stream does its work within the call.
#ifndef FEEDD_GPU_GPU_HOST_H
#define FEEDD_GPU_GPU_HOST_H

#include "base/error.h"
#include "gpu/gpu.h"

#define GPU_HOST_FAULTS "FEEDD_SIMULATED_GPU"
#define GPU_HOST_MOST   16u // simulated GPUs: HOST-0 to HOST-15

int gpu_host_open(struct gpu **gpu, uint32_t ordinal, struct error *error);

// Queues a "kernel": the function runs in the stream's thread when all earlier work of the stream is done.
int gpu_host_stream_call(struct gpu *gpu, gpu_stream stream, void (*function)(void *), void *argument,
                         struct error *error);

#endif
