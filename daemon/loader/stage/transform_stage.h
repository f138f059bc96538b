// Transforms (daemon/dataset/transform.h) as a stage. They never refuse a sample.
#ifndef FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_STAGE_H
#define FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_STAGE_H

#include "base/error.h"
#include "daemon/dataset/transform.h"
#include "daemon/loader/stage/stage.h"

// `transform` must outlive the stage. -EINVAL when its samples are not of `delivered_bytes`.
int transform_stage_open(const struct transform *transform, uint64_t delivered_bytes, struct stage **stage,
                         struct error *error);

#endif
