// The CUDA driver as this process has loaded it. The only file that includes CUDA's headers; for gpu_cuda*.c alone.
#ifndef FEEDD_GPU_GPU_CUDA_DRIVER_H
#define FEEDD_GPU_GPU_CUDA_DRIVER_H

#ifdef HAVE_CUDA

#include <cuda.h>
#include <cudaTypedefs.h>

#include "base/error.h"
#include "gpu/gpu.h"

#if CUDA_VERSION < 11070
#error "this CUDA toolkit is older than 11.7: take a newer one (CUDA_HOME=), or build with CUDA=0"
#endif

// Valid after cuda_need_driver.
struct cuda_driver {
    int code; // of loading it; `error` says why
    struct error error;
    pid_t process;
    int version; // 12040 is CUDA 12.4
    int count;   // of the GPUs that this process sees
#define CUDA_CALL(name, version) PFN_##name##_v##version name;
#include "gpu/cuda_calls.def"
#undef CUDA_CALL
    // Since CUDA 12.5, NULL before: records an event after all that is queued in the context. Declared here for older
    // headers.
    CUresult (*cuCtxRecordEvent)(CUcontext context, CUevent event);
};
extern struct cuda_driver cuda_driver;

// Loads the driver when nobody has, once for the process.
int cuda_need_driver(struct error *error);

// CUDA's state does not survive a fork: in a child of the process that loaded it nothing may be called.
int cuda_check_process(struct error *error);

// "cannot `what`: ..." with the driver's words. -ENOMEM for want of memory, else -EIO.
int cuda_fail(CUresult result, const char *what, struct error *error);

// The GPU of that UUID, if this process sees it; `uuid` as the driver has it.
int cuda_find_device(const char *name, CUdevice *device, char uuid[GPU_UUID_BYTES], struct error *error);

#endif
#endif
