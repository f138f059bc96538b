#include "daemon/loader/stage/transform_stage.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/error.h"
#include "daemon/loader/stage/transform_run.h"

struct transform_stage {
    struct stage stage;
    const struct transform *transform;
    uint64_t delivered_bytes;
};

static int transform_bytes_needed(const struct stage *stage, uint64_t stored_bytes, uint64_t *bytes) {
    const struct transform_stage *self = (const struct transform_stage *)stage;
    if (stored_bytes != self->transform->elements * dtype_bytes(self->transform->stored))
        return -EINVAL;
    const bool apart = stored_bytes > self->delivered_bytes || transform_moves(self->transform);
    *bytes = apart ? stored_bytes : 0;
    return 0;
}

static void transform_stage_run(struct stage *stage, const struct stage_run *run) {
    const struct transform_stage *self = (const struct transform_stage *)stage;
    transform_run(self->transform, run->stored, run->delivered, run->count);
}

static void transform_close(struct stage *stage) {
    free(stage);
}

static const struct stage_ops transform_ops = {
    .name = "transform",
    .bytes_needed = transform_bytes_needed,
    .run = transform_stage_run,
    .close = transform_close,
};

int transform_stage_open(const struct transform *transform, uint64_t delivered_bytes, struct stage **stage,
                         struct error *error) {
    *stage = NULL;
    uint64_t bytes = transform->elements * dtype_bytes(transform->target);
    if (bytes != delivered_bytes || transform->step_count > TRANSFORM_MAX_STEPS)
        return error_set(error, -EINVAL,
                         "found a transform to samples of %" PRIu64 " bytes, wanted %" PRIu64 " bytes", bytes,
                         delivered_bytes);
    struct transform_stage *self = malloc(sizeof *self);
    if (!self)
        return error_set(error, -ENOMEM, "no memory for a transform");
    *self = (struct transform_stage){
        .stage.ops = &transform_ops, .transform = transform, .delivered_bytes = delivered_bytes};
    *stage = &self->stage;
    return 0;
}
