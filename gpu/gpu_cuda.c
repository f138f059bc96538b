// NVIDIA GPUs, through the CUDA driver API.
#include "gpu/gpu_cuda.h"

#ifdef HAVE_CUDA

#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "gpu/gpu_cuda_driver.h"
#include "gpu/gpu_cuda_finish.h"
#include "gpu/gpu_cuda_marks.h"

struct cuda_gpu {
    struct gpu gpu;
    CUdevice device;
    CUcontext context;
    size_t granularity;
    bool registers_read_only;
    CUstream last; // of write_word_last; both NULL until it is called
    CUevent all;
};

static struct cuda_gpu *cuda_of(struct gpu *gpu) {
    return (struct cuda_gpu *)gpu; // its first member
}

// ---- Operations ---------------------------------------------------------------------------------------------

// Between enter and leave, the GPU's context is the thread's current context.
static int enter(struct gpu *gpu, struct error *error) {
    int err = cuda_check_process(error);
    if (err < 0)
        return err;
    CUresult result = cuda_driver.cuCtxPushCurrent(cuda_of(gpu)->context);
    return result == CUDA_SUCCESS ? 0 : cuda_fail(result, "enter the GPU's context", error);
}

static int leave(CUresult result, const char *what, struct error *error) {
    CUcontext left;
    cuda_driver.cuCtxPopCurrent(&left);
    return result == CUDA_SUCCESS ? 0 : cuda_fail(result, what, error);
}

static void cuda_close(struct gpu *gpu) {
    struct cuda_gpu *cuda = cuda_of(gpu);
    if (cuda->last && enter(gpu, NULL) == 0) {
        cuda_driver.cuEventDestroy(cuda->all);
        leave(cuda_driver.cuStreamDestroy(cuda->last), "", NULL);
    }
    cuda_finish_unload(gpu);
    if (cuda_check_process(NULL) == 0)
        cuda_driver.cuDevicePrimaryCtxRelease(cuda->device);
    free(cuda_of(gpu));
}

static uint64_t cuda_round_up(struct gpu *gpu, uint64_t bytes) {
    return align_up(bytes, cuda_of(gpu)->granularity);
}

static int cuda_free_bytes(struct gpu *gpu, uint64_t *bytes, struct error *error) {
    size_t unused = 0, total = 0;
    int err = enter(gpu, error);
    if (err < 0)
        return err;
    err = leave(cuda_driver.cuMemGetInfo(&unused, &total), "query the GPU's free memory", error);
    *bytes = unused;
    return err;
}

static CUmemLocation location_of(const struct cuda_gpu *cuda) {
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda->device};
}

static CUmemAllocationProp properties_of(const struct cuda_gpu *cuda) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = location_of(cuda)};
}

static void unmap(CUdeviceptr address, uint64_t bytes) {
    cuda_driver.cuMemUnmap(address, bytes);
    cuda_driver.cuMemAddressFree(address, bytes);
}

static CUresult map(const struct cuda_gpu *cuda, CUmemGenericAllocationHandle handle, uint64_t bytes,
                    bool writable, CUdeviceptr *address) {
    const CUmemAccessDesc access = {.location = location_of(cuda),
                                    .flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                      : CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUresult result = cuda_driver.cuMemAddressReserve(address, bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuda_driver.cuMemMap(*address, bytes, 0, handle, 0);
    if (result != CUDA_SUCCESS) {
        cuda_driver.cuMemAddressFree(*address, bytes);
        return result;
    }
    result = cuda_driver.cuMemSetAccess(*address, bytes, &access, 1);
    if (result != CUDA_SUCCESS)
        unmap(*address, bytes);
    return result;
}

static CUresult create(const struct cuda_gpu *cuda, uint64_t bytes, CUdeviceptr *address, int *fd) {
    const CUmemAllocationProp properties = properties_of(cuda);
    CUmemGenericAllocationHandle handle;
    CUresult result = cuda_driver.cuMemCreate(&handle, bytes, &properties, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = map(cuda, handle, bytes, true, address);
    if (result == CUDA_SUCCESS) {
        result = cuda_clear(*address, bytes);
        if (result == CUDA_SUCCESS)
            result = cuda_driver.cuMemExportToShareableHandle(fd, handle,
                                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        if (result != CUDA_SUCCESS)
            unmap(*address, bytes);
    }
    cuda_driver.cuMemRelease(handle); // the mapping and the descriptor keep the memory
    return result;
}

static int cuda_create(struct gpu *gpu, uint64_t bytes, struct gpu_memory *memory, int *fd,
                       struct error *error) {
    int err = enter(gpu, error);
    if (err < 0)
        return err;
    CUdeviceptr address = 0;
    int made = -1;
    CUresult result = create(cuda_of(gpu), bytes, &address, &made);
    err = leave(result, "allocate GPU memory", error);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        uint64_t unused = 0;
        cuda_free_bytes(gpu, &unused, NULL);
        return error_set(error, -ENOMEM, "%llu MiB of GPU memory are needed on %s (%s); %llu MiB are free",
                         (unsigned long long)divide_up(bytes, 1u << 20), gpu->name, gpu->uuid,
                         (unsigned long long)unused >> 20);
    }
    if (err < 0)
        return err;
    fcntl(made, F_SETFD, FD_CLOEXEC);
    *fd = made;
    *memory = (struct gpu_memory){.address = address, .bytes = bytes};
    return 0;
}

static int cuda_import(struct gpu *gpu, int fd, uint64_t bytes, bool writable, struct gpu_memory *memory,
                       struct error *error) {
    int err = enter(gpu, error);
    if (err < 0)
        return err;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address = 0;
    CUresult result = cuda_driver.cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
                                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result == CUDA_SUCCESS) {
        result = map(cuda_of(gpu), handle, bytes, writable, &address);
        cuda_driver.cuMemRelease(handle);
    }
    err = leave(result, "map another process's GPU memory", error);
    if (err == 0)
        *memory = (struct gpu_memory){.address = address, .bytes = bytes};
    return err;
}

static void cuda_free(struct gpu *gpu, struct gpu_memory *memory) {
    if (enter(gpu, NULL) < 0)
        return;
    unmap(memory->address, memory->bytes);
    leave(CUDA_SUCCESS, "", NULL);
}

static int cuda_host_register(struct gpu *gpu, void *memory, uint64_t bytes, bool read_only,
                              uint64_t *address, struct error *error) {
    if (read_only && !cuda_of(gpu)->registers_read_only)
        return error_set(error, -ENOTSUP, "%s (%s) cannot reach memory that is mapped read-only", gpu->name,
                         gpu->uuid);
    int err = enter(gpu, error);
    if (err < 0)
        return err;
    const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                           (read_only ? CU_MEMHOSTREGISTER_READ_ONLY : 0u);
    CUdeviceptr mapped = 0;
    CUresult result = cuda_driver.cuMemHostRegister(memory, bytes, flags);
    if (result == CUDA_SUCCESS) {
        result = cuda_driver.cuMemHostGetDevicePointer(&mapped, memory, 0);
        if (result != CUDA_SUCCESS)
            cuda_driver.cuMemHostUnregister(memory);
    }
    char what[64];
    snprintf(what, sizeof what, "pin %llu bytes of memory for the GPU", (unsigned long long)bytes);
    *address = mapped;
    return leave(result, what, error);
}

static void cuda_host_unregister(struct gpu *gpu, void *memory) {
    if (enter(gpu, NULL) == 0)
        leave(cuda_driver.cuMemHostUnregister(memory), "", NULL);
}

static int cuda_stream_create(struct gpu *gpu, gpu_stream *stream, struct error *error) {
    CUstream made = NULL;
    int err = enter(gpu, error);
    if (err == 0)
        err = leave(cuda_driver.cuStreamCreate(&made, CU_STREAM_NON_BLOCKING), "create a stream", error);
    *stream = made;
    return err;
}

static int cuda_call(struct gpu *gpu, void (*function)(void *), void *argument, struct error *error) {
    int err = enter(gpu, error);
    if (err)
        return err;
    function(argument);
    return leave(CUDA_SUCCESS, "", NULL);
}

static void cuda_stream_destroy(struct gpu *gpu, gpu_stream stream) {
    if (enter(gpu, NULL) == 0)
        leave(cuda_driver.cuStreamDestroy(stream), "", NULL);
}

static int cuda_copy_in(struct gpu *gpu, gpu_stream stream, uint64_t to, const void *from, uint64_t bytes,
                        struct error *error) {
    int err = enter(gpu, error);
    return err < 0 ? err
                   : leave(cuda_driver.cuMemcpyHtoDAsync(to, from, bytes, stream), "copy to the GPU", error);
}

static int cuda_copy_out(struct gpu *gpu, void *to, uint64_t from, uint64_t bytes, struct error *error) {
    int err = enter(gpu, error);
    return err < 0 ? err : leave(cuda_driver.cuMemcpyDtoH(to, from, bytes), "copy from the GPU", error);
}

static int cuda_write_words(struct gpu *gpu, gpu_stream stream, const struct gpu_word *words, uint32_t count,
                            struct error *error) {
    int err = enter(gpu, error);
    if (err < 0)
        return err;
    // With default flags, everyone sees the write after everything that was queued before it.
    if (count == 1)
        return leave(cuda_driver.cuStreamWriteValue64(stream, words->address, words->value,
                                                      CU_STREAM_WRITE_VALUE_DEFAULT),
                     "queue the write of a word", error);
    CUstreamBatchMemOpParams writes[GPU_WORDS_MOST];
    memset(writes, 0, sizeof writes);
    for (uint32_t i = 0; i < count; i++) {
        writes[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        writes[i].writeValue.address = words[i].address;
        writes[i].writeValue.value64 = words[i].value;
        writes[i].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    return leave(cuda_driver.cuStreamBatchMemOp(stream, count, writes, 0), "queue the write of words", error);
}

static CUresult make_last_stream(struct cuda_gpu *cuda) {
    if (cuda->last)
        return CUDA_SUCCESS;
    CUevent event;
    CUresult result = cuda_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuda_driver.cuStreamCreate(&cuda->last, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS)
        cuda->all = event;
    else
        cuda_driver.cuEventDestroy(event);
    return result;
}

static int cuda_write_word_last(struct gpu *gpu, const struct gpu_word *word, struct error *error) {
    struct cuda_gpu *cuda = cuda_of(gpu);
    int err = enter(gpu, error);
    if (err < 0)
        return err;
    CUresult result = make_last_stream(cuda);
    if (result == CUDA_SUCCESS)
        result = cuda_driver.cuCtxRecordEvent ? cuda_driver.cuCtxRecordEvent(cuda->context, cuda->all)
                                              : cuda_driver.cuCtxSynchronize();
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
        leave(CUDA_SUCCESS, "", NULL);
        return error_set(error, -EAGAIN, "not while a CUDA graph is captured");
    }
    if (result == CUDA_SUCCESS && cuda_driver.cuCtxRecordEvent)
        result = cuda_driver.cuStreamWaitEvent(cuda->last, cuda->all, 0);
    if (result == CUDA_SUCCESS)
        result = cuda_driver.cuStreamWriteValue64(cuda->last, word->address, word->value,
                                                  CU_STREAM_WRITE_VALUE_DEFAULT);
    return leave(result, "queue the write of a word after all other work", error);
}

static int cuda_wait_word(struct gpu *gpu, gpu_stream stream, uint64_t address, uint64_t value,
                          struct error *error) {
    int err = enter(gpu, error);
    return err < 0 ? err
                   : leave(cuda_driver.cuStreamWaitValue64(stream, address, value, CU_STREAM_WAIT_VALUE_GEQ),
                           "queue the wait for a word", error);
}

static int cuda_synchronize(struct gpu *gpu, gpu_stream stream, struct error *error) {
    int err = enter(gpu, error);
    if (err < 0)
        return err;
    return leave(stream ? cuda_driver.cuStreamSynchronize(stream) : cuda_driver.cuCtxSynchronize(),
                 "wait for the GPU", error);
}

// ---- Opening ------------------------------------------------------------------------------------------------

static const struct gpu_operations cuda_operations = {.close = cuda_close,
                                                      .round_up = cuda_round_up,
                                                      .create = cuda_create,
                                                      .import = cuda_import,
                                                      .free = cuda_free,
                                                      .host_register = cuda_host_register,
                                                      .host_unregister = cuda_host_unregister,
                                                      .stream_create = cuda_stream_create,
                                                      .stream_destroy = cuda_stream_destroy,
                                                      .copy_in = cuda_copy_in,
                                                      .copy_out = cuda_copy_out,
                                                      .write_words = cuda_write_words,
                                                      .write_word_last = cuda_write_word_last,
                                                      .wait_word = cuda_wait_word,
                                                      .synchronize = cuda_synchronize,
                                                      .free_bytes = cuda_free_bytes,
                                                      .urgent_stream_create = cuda_urgent_stream_create,
                                                      .call = cuda_call,
                                                      .mark_create = cuda_mark_create,
                                                      .mark_destroy = cuda_mark_destroy,
                                                      .mark_put = cuda_mark_put,
                                                      .mark_span = cuda_mark_span,
                                                      .finish = CUDA_FINISH};

// Reads the device's properties, and refuses it if it lacks something that is needed.
static int read_device(struct cuda_gpu *cuda, struct error *error) {
    static const struct {
        CUdevice_attribute attribute;
        const char *name;
    } needed[] = {
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "virtual memory management"},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
         "memory that other processes can map"},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, "64-bit words in streams"},
    };
    struct gpu *gpu = &cuda->gpu;
    size_t total = 0;
    int read_only = 0;
    CUresult result = cuda_driver.cuDeviceGetName(gpu->name, sizeof gpu->name, cuda->device);
    if (result == CUDA_SUCCESS)
        result = cuda_driver.cuDeviceTotalMem(&total, cuda->device);
    for (size_t i = 0; result == CUDA_SUCCESS && i < COUNT_OF(needed); i++) {
        int has = 0;
        result = cuda_driver.cuDeviceGetAttribute(&has, needed[i].attribute, cuda->device);
        if (result == CUDA_SUCCESS && !has)
            return error_set(error, -ENOTSUP, "%s (%s) lacks %s, which delivery to it requires", gpu->name,
                             gpu->uuid, needed[i].name);
    }
    if (result == CUDA_SUCCESS)
        result = cuda_driver.cuDeviceGetAttribute(
            &read_only, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, cuda->device);
    const CUmemAllocationProp properties = properties_of(cuda);
    if (result == CUDA_SUCCESS)
        result = cuda_driver.cuMemGetAllocationGranularity(&cuda->granularity, &properties,
                                                           CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    gpu->memory_bytes = total;
    gpu->number = cuda->device; // the driver's handle of a device is its number
    cuda->registers_read_only = read_only;
    return result == CUDA_SUCCESS ? 0 : cuda_fail(result, "query the GPU's properties", error);
}

int gpu_cuda_open(struct gpu **gpu, const char *uuid, struct error *error) {
    AUTO_FREE struct cuda_gpu *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return error_set(error, -ENOMEM, "no memory for a GPU's handle");
    cuda->gpu.operations = &cuda_operations;
    int err = cuda_find_device(uuid, &cuda->device, cuda->gpu.uuid, error);
    if (err == 0)
        err = read_device(cuda, error);
    if (err < 0)
        return err;
    CUresult result = cuda_driver.cuDevicePrimaryCtxRetain(&cuda->context, cuda->device);
    if (result != CUDA_SUCCESS)
        return cuda_fail(result, "create a context on the GPU", error);
    *gpu = &cuda->gpu;
    cuda = NULL;
    return 0;
}

#else

int gpu_cuda_open(struct gpu **gpu, const char *uuid, struct error *error) {
    (void)gpu, (void)uuid;
    return error_set(error, -ENOTSUP, GPU_CUDA_MISSING);
}

#endif
