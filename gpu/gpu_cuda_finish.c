#include "gpu/gpu_cuda_finish.h"

#include "gpu/gpu_cuda_driver.h"

bool cuda_can_finish(void) {
#ifdef HAVE_FINISH
    return true;
#else
    return false;
#endif
}

#ifdef HAVE_CUDA

#include "base/sizes.h"
#include "gpu/finish_math.h"

struct urgent {
    CUstream stream;
    CUresult result;
};

static void create_urgent(void *argument) {
    struct urgent *urgent = argument;
    int least = 0, greatest = 0;
    urgent->result = cuda_driver.cuCtxGetStreamPriorityRange(&least, &greatest);
    if (urgent->result == CUDA_SUCCESS)
        urgent->result =
            cuda_driver.cuStreamCreateWithPriority(&urgent->stream, CU_STREAM_NON_BLOCKING, greatest);
}

int cuda_urgent_stream_create(struct gpu *gpu, gpu_stream *stream, struct error *error) {
    struct urgent urgent = {0};
    int err = gpu_call(gpu, create_urgent, &urgent, error);
    *stream = urgent.stream;
    if (err || urgent.result == CUDA_SUCCESS)
        return err;
    return cuda_fail(urgent.result, "create a stream", error);
}

static void unload(void *module) {
    cuda_driver.cuModuleUnload(module);
}

void cuda_finish_unload(struct gpu *gpu) {
    if (gpu->module)
        gpu_call(gpu, unload, gpu->module, NULL);
}

#endif

#if defined(HAVE_CUDA) && defined(HAVE_FINISH)

// The kernel for several architectures, from which the driver takes what its GPU runs. FINISH_FATBIN is its path.
__asm__(".section .rodata\n"
        ".balign 64\n"
        ".global feedd_finish_image\n"
        ".hidden feedd_finish_image\n"
        ".type feedd_finish_image, @object\n"
        "feedd_finish_image:\n"
        ".incbin \"" FINISH_FATBIN "\"\n"
        ".size feedd_finish_image, . - feedd_finish_image\n"
        ".previous\n");
extern const unsigned char feedd_finish_image[] __attribute__((visibility("hidden")));

struct launch {
    struct gpu *gpu;
    CUstream stream;
    struct finish_batch batch;
    CUresult result;
};

static void load(struct launch *launch) {
    CUmodule module = NULL;
    CUfunction kernel = NULL;
    if (launch->gpu->kernel)
        return;
    launch->result = cuda_driver.cuModuleLoadData(&module, feedd_finish_image);
    if (launch->result != CUDA_SUCCESS)
        return;
    launch->result = cuda_driver.cuModuleGetFunction(&kernel, module, "feedd_finish");
    if (launch->result != CUDA_SUCCESS) {
        cuda_driver.cuModuleUnload(module);
        return;
    }
    launch->gpu->module = module;
    launch->gpu->kernel = kernel;
}

static void launch(void *argument) {
    struct launch *launch = argument;
    const struct finish_batch *batch = &launch->batch;
    void *parameters[] = {&launch->batch};
    load(launch);
    if (launch->result != CUDA_SUCCESS)
        return;
    launch->result =
        cuda_driver.cuLaunchKernel(launch->gpu->kernel, (unsigned)divide_up(batch->width, IMAGE_RECORD_TILE),
                                   (unsigned)divide_up(batch->height, IMAGE_RECORD_TILE), batch->count,
                                   FINISH_THREADS, 1, 1, 0, launch->stream, parameters, NULL);
}

int cuda_finish(struct gpu *gpu, gpu_stream stream, const struct finish_batch *batch, struct error *error) {
    struct launch all = {.gpu = gpu, .stream = stream, .batch = *batch, .result = CUDA_SUCCESS};
    int err = gpu_call(gpu, launch, &all, error);
    if (err || all.result == CUDA_SUCCESS)
        return err;
    return cuda_fail(all.result, "finish images", error);
}

#else

int cuda_finish(struct gpu *gpu, gpu_stream stream, const struct finish_batch *batch, struct error *error) {
    (void)gpu, (void)stream, (void)batch;
    return error_set(error, -ENOTSUP, "this build was made without nvcc");
}

#endif
