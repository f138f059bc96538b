// The CUDA driver as this process has loaded it. The only file that includes CUDA's headers; only for gpu_cuda*.c.
#ifndef FEEDD_GPU_GPU_CUDA_DRIVER_H
#define FEEDD_GPU_GPU_CUDA_DRIVER_H

#ifdef HAVE_CUDA

#include <cuda.h>
#include <cudaTypedefs.h>

#include "base/error.h"
#include "gpu/gpu.h"

#if CUDA_VERSION < 11070
#error "this CUDA toolkit is older than 11.7: use a newer one (CUDA_HOME=), or build with CUDA=0"
#endif

// Valid after cuda_need_driver.
struct cuda_driver {
    int code; // the result of loading it; `error` says why
    struct error error;
    pid_t process;
    int version; // 12040 is CUDA 12.4
    int count;   // GPUs that this process sees
#define CUDA_CALL(name, version) PFN_##name##_v##version name;
#include "gpu/cuda_calls.def"
#undef CUDA_CALL
    // Records an event after everything queued in the context. Since CUDA 12.5, NULL before; declared here because
    // older headers lack it.
    CUresult (*cuCtxRecordEvent)(CUcontext context, CUevent event);
};
extern struct cuda_driver cuda_driver;

// Loads the driver once per process, on the first call.
int cuda_need_driver(struct error *error);

// CUDA's state does not survive a fork: a child of the process that loaded the driver may not call it.
int cuda_check_process(struct error *error);

// "cannot `what`: ..." with the driver's description. -ENOMEM if memory ran out, else -EIO.
int cuda_fail(CUresult result, const char *what, struct error *error);

// Fills memory of the current context's GPU with zeros.
CUresult cuda_clear(CUdeviceptr address, uint64_t bytes);

// The GPU with that UUID, if this process sees it; `uuid` in the driver's spelling.
int cuda_find_device(const char *name, CUdevice *device, char uuid[GPU_UUID_BYTES], struct error *error);

#endif
#endif
