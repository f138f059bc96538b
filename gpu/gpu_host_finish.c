#include "gpu/gpu_host_finish.h"

#include <stdlib.h>

#include "gpu/gpu_host.h"

static void finish(void *argument) {
    struct finish_batch *batch = argument;
    finish_on_host(batch);
    free(batch);
}

int host_finish(struct gpu *gpu, gpu_stream stream, const struct finish_batch *batch, struct error *error) {
    struct finish_batch *copy = malloc(sizeof *copy);
    if (!copy)
        return error_set(error, -ENOMEM, "no memory for work in a stream");
    *copy = *batch;
    int err = gpu_host_stream_call(gpu, stream, finish, copy, error);
    if (err)
        free(copy);
    return err;
}
