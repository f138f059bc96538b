// Loads the CUDA driver at run time, and finds GPUs by name.
#include "gpu/gpu_cuda_driver.h"

#include "gpu/gpu_cuda.h"

#ifdef HAVE_CUDA

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sizes.h"

#define DRIVER_LEAST 12000 // CUDA 12.0

struct cuda_driver cuda_driver;

int cuda_fail(CUresult result, const char *what, struct error *error) {
    const char *name = NULL, *text = NULL;
    cuda_driver.cuGetErrorName(result, &name);
    cuda_driver.cuGetErrorString(result, &text);
    return error_set(error, result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO, "cannot %s: %s (%s)", what,
                     text ? text : "an error that the driver cannot name", name ? name : "no name");
}

static int refuse_old_driver(int version, struct error *error) {
    return error_set(error, -ENOTSUP, "the NVIDIA driver supports CUDA %d.%d; %d.%d or later is needed",
                     version / 1000, version % 1000 / 10, DRIVER_LEAST / 1000, DRIVER_LEAST % 1000 / 10);
}

// In a container, the kernel may have a driver whose library is missing or cannot be loaded.
static int refuse_without_library(const char *reason, struct error *error) {
    if (access("/proc/driver/nvidia/version", F_OK) < 0)
        return error_set(error, -ENOTSUP, "there is no NVIDIA driver on this machine");
    return error_set(error, -ENOTSUP, "the NVIDIA driver's library cannot be loaded: %s", reason);
}

static int find_calls(PFN_cuGetProcAddress_v12000 find, struct error *error) {
    const struct {
        const char *name;
        int since;
        void **call;
    } calls[] = {
#define CUDA_CALL(name, version) {#name, version, (void **)&cuda_driver.name},
#include "gpu/cuda_calls.def"
#undef CUDA_CALL
    };
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        CUresult result =
            find(calls[i].name, calls[i].call, calls[i].since, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
        if (result != CUDA_SUCCESS || !*calls[i].call)
            return error_set(error, -ENOTSUP, "the NVIDIA driver (CUDA %d.%d) does not have %s",
                             cuda_driver.version / 1000, cuda_driver.version % 1000 / 10, calls[i].name);
    }
    CUdriverProcAddressQueryResult found;
    if (find("cuCtxRecordEvent", (void **)&cuda_driver.cuCtxRecordEvent, 12050,
             CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) != CUDA_SUCCESS)
        cuda_driver.cuCtxRecordEvent = NULL;
    return 0;
}

static int load(struct error *error) {
    void *library =
        dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); // never closed: it cannot be unloaded safely
    if (!library)
        return refuse_without_library(dlerror(), error);
    PFN_cuDriverGetVersion_v2020 get_version =
        (PFN_cuDriverGetVersion_v2020)dlsym(library, "cuDriverGetVersion");
    PFN_cuGetProcAddress_v12000 find = (PFN_cuGetProcAddress_v12000)dlsym(library, "cuGetProcAddress_v2");
    if (get_version)
        get_version(&cuda_driver.version);
    if (!find || cuda_driver.version < DRIVER_LEAST)
        return refuse_old_driver(cuda_driver.version, error);
    int err = find_calls(find, error);
    if (err < 0)
        return err;
    CUresult result = cuda_driver.cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE)
        return 0;
    if (result == CUDA_ERROR_NOT_INITIALIZED)
        return error_set(error, -ENOTSUP,
                         "CUDA was used before this process was forked, so it cannot be used here: start "
                         "processes anew (\"spawn\") instead");
    if (result == CUDA_SUCCESS)
        result = cuda_driver.cuDeviceGetCount(&cuda_driver.count);
    return result == CUDA_SUCCESS ? 0 : cuda_fail(result, "start the NVIDIA driver", error);
}

static void load_once(void) {
    cuda_driver.process = getpid();
    cuda_driver.code = load(&cuda_driver.error);
}

int cuda_check_process(struct error *error) {
    if (cuda_driver.process == getpid())
        return 0;
    return error_set(
        error, -ENOTSUP,
        "CUDA was loaded by process %d and cannot be used in one that was forked from it: start processes "
        "anew (\"spawn\") instead",
        (int)cuda_driver.process);
}

int cuda_need_driver(struct error *error) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    if (cuda_driver.code < 0)
        return error_set(error, cuda_driver.code, "%s", cuda_driver.error.text);
    return cuda_check_process(error);
}

// Uses a stream of its own. Waiting for the whole context would include work that a caller has queued, and that may
// depend on what the caller does next.
CUresult cuda_clear(CUdeviceptr address, uint64_t bytes) {
    CUstream stream;
    CUresult result = cuda_driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuda_driver.cuMemsetD8Async(address, 0, bytes, stream);
    if (result == CUDA_SUCCESS)
        result = cuda_driver.cuStreamSynchronize(stream);
    cuda_driver.cuStreamDestroy(stream);
    return result;
}

// ---- Names --------------------------------------------------------------------------------------------------

static int refuse_invisible(const char *name, struct error *error) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return error_set(error, -ENODEV, "GPU %s is not visible to this process, which sees %d of them (%s%s%s)",
                     name, cuda_driver.count,
                     visible ? "CUDA_VISIBLE_DEVICES is \"" : "CUDA_VISIBLE_DEVICES is not set",
                     visible ? visible : "", visible ? "\"" : "");
}

static int read_uuid(int ordinal, CUdevice *device, char uuid[GPU_UUID_BYTES], struct error *error) {
    CUuuid raw;
    CUresult result = cuda_driver.cuDeviceGet(device, ordinal);
    if (result == CUDA_SUCCESS)
        result = cuda_driver.cuDeviceGetUuid(&raw, *device);
    if (result != CUDA_SUCCESS)
        return cuda_fail(result, "read a GPU's UUID", error);
    int used = snprintf(uuid, GPU_UUID_BYTES, "GPU");
    for (int i = 0; i < (int)sizeof raw.bytes; i++)
        used +=
            snprintf(uuid + used, GPU_UUID_BYTES - (size_t)used, "%s%02x",
                     i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)raw.bytes[i]);
    return 0;
}

int cuda_find_device(const char *name, CUdevice *device, char uuid[GPU_UUID_BYTES], struct error *error) {
    char seen[GPU_UUID_BYTES];
    int err = cuda_need_driver(error);
    for (int i = 0; err == 0 && i < cuda_driver.count; i++) {
        err = read_uuid(i, device, seen, error);
        if (err == 0 && strcasecmp(seen, name) == 0) {
            memcpy(uuid, seen, sizeof seen);
            return 0;
        }
    }
    return err < 0 ? err : refuse_invisible(name, error);
}

int gpu_cuda_describe(char *text, size_t bytes, struct error *error) {
    int err = cuda_need_driver(error);
    if (err == 0)
        snprintf(text, bytes, "the NVIDIA driver supports CUDA %d.%d, and this process sees %d GPU%s",
                 cuda_driver.version / 1000, cuda_driver.version % 1000 / 10, cuda_driver.count,
                 cuda_driver.count == 1 ? "" : "s");
    return err;
}

int gpu_cuda_uuid(uint32_t ordinal, char uuid[GPU_UUID_BYTES], struct error *error) {
    int err = cuda_need_driver(error);
    if (err < 0)
        return err;
    char name[16];
    snprintf(name, sizeof name, "cuda:%u", ordinal);
    CUdevice device = 0;
    return ordinal < (uint32_t)cuda_driver.count ? read_uuid((int)ordinal, &device, uuid, error)
                                                 : refuse_invisible(name, error);
}

int gpu_cuda_find(const char *name, char uuid[GPU_UUID_BYTES], struct error *error) {
    CUdevice device = 0;
    return cuda_find_device(name, &device, uuid, error);
}

int gpu_cuda_toolkit(void) {
    return CUDA_VERSION;
}

#else

static int refuse(struct error *error) {
    return error_set(error, -ENOTSUP, GPU_CUDA_MISSING);
}

int gpu_cuda_toolkit(void) {
    return 0;
}

int gpu_cuda_describe(char *text, size_t bytes, struct error *error) {
    (void)text, (void)bytes;
    return refuse(error);
}

int gpu_cuda_uuid(uint32_t ordinal, char uuid[GPU_UUID_BYTES], struct error *error) {
    (void)ordinal, (void)uuid;
    return refuse(error);
}

int gpu_cuda_find(const char *name, char uuid[GPU_UUID_BYTES], struct error *error) {
    (void)name, (void)uuid;
    return refuse(error);
}

#endif
