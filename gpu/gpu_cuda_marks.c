#include "gpu/gpu_cuda_marks.h"

#ifdef HAVE_CUDA

#include "base/sizes.h"
#include "base/time.h"
#include "gpu/gpu_cuda_driver.h"

struct mark_call {
    CUevent event, earlier;
    CUstream stream;
    float milliseconds;
    CUresult result;
};

static int call(struct gpu *gpu, void (*function)(void *), struct mark_call *call, const char *what,
                struct error *error) {
    int err = gpu_call(gpu, function, call, error);
    if (err || call->result == CUDA_SUCCESS || call->result == CUDA_ERROR_NOT_READY)
        return err;
    return cuda_fail(call->result, what, error);
}

static void create(void *argument) {
    struct mark_call *call = argument;
    call->result = cuda_driver.cuEventCreate(&call->event, CU_EVENT_DEFAULT);
}

static void destroy(void *argument) {
    struct mark_call *call = argument;
    call->result = cuda_driver.cuEventDestroy(call->event);
}

static void put(void *argument) {
    struct mark_call *call = argument;
    call->result = cuda_driver.cuEventRecord(call->event, call->stream);
}

static void measure(void *argument) {
    struct mark_call *call = argument;
    call->result = cuda_driver.cuEventElapsedTime(&call->milliseconds, call->earlier, call->event);
}

int cuda_mark_create(struct gpu *gpu, gpu_mark *mark, struct error *error) {
    struct mark_call made = {0};
    int err = call(gpu, create, &made, "create an event", error);
    *mark = made.event;
    return err;
}

void cuda_mark_destroy(struct gpu *gpu, gpu_mark mark) {
    struct mark_call old = {.event = mark};
    call(gpu, destroy, &old, "destroy an event", NULL);
}

int cuda_mark_put(struct gpu *gpu, gpu_stream stream, gpu_mark mark, struct error *error) {
    struct mark_call one = {.event = mark, .stream = stream};
    return call(gpu, put, &one, "queue an event", error);
}

// In milliseconds, as a float: a second later it is exact to 60 ns.
int cuda_mark_span(struct gpu *gpu, gpu_mark first, gpu_mark second, int64_t *ns, struct error *error) {
    struct mark_call both = {.event = second, .earlier = first};
    int err = call(gpu, measure, &both, "look at an event", error);
    if (err || both.result == CUDA_ERROR_NOT_READY)
        return err;
    *ns = (int64_t)((double)both.milliseconds * (double)NS_PER_MS);
    return 1;
}

#endif
