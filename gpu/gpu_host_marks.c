#include "gpu/gpu_host_marks.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/time.h"
#include "gpu/gpu_host.h"

#define GAINS_ONE_IN 2500u

// Written by the stream's thread, and read by the one that has the handle.
struct host_mark {
    _Atomic uint64_t ns; // 0: the stream has not reached it
};

static uint64_t clock_ns(void) {
    const uint64_t now = monotonic_ns();
    return now + now / GAINS_ONE_IN;
}

static void pass(void *argument) {
    struct host_mark *mark = argument;
    atomic_store_explicit(&mark->ns, clock_ns(), memory_order_relaxed);
}

int host_mark_create(struct gpu *gpu, gpu_mark *mark, struct error *error) {
    (void)gpu;
    *mark = calloc(1, sizeof(struct host_mark));
    return *mark ? 0 : error_set(error, -ENOMEM, "no memory for a mark");
}

void host_mark_destroy(struct gpu *gpu, gpu_mark mark) {
    (void)gpu;
    free(mark);
}

int host_mark_put(struct gpu *gpu, gpu_stream stream, gpu_mark mark, struct error *error) {
    struct host_mark *put = mark;
    atomic_store_explicit(&put->ns, 0, memory_order_relaxed);
    return gpu_host_stream_call(gpu, stream, pass, mark, error);
}

int host_mark_span(struct gpu *gpu, gpu_mark first, gpu_mark second, int64_t *ns, struct error *error) {
    const struct host_mark *from = first, *to = second;
    const uint64_t begin = atomic_load_explicit(&from->ns, memory_order_relaxed);
    const uint64_t end = atomic_load_explicit(&to->ns, memory_order_relaxed);
    (void)gpu, (void)error;
    *ns = begin && end ? (int64_t)(end - begin) : 0;
    return begin && end;
}
