// Transforms samples that were read: see daemon/source/transform.h for what comes of them.
#ifndef FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_RUN_H
#define FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_RUN_H

#include "daemon/source/transform.h"

struct transform_kernels;

// From `stored` to `delivered`, samples one after another in both. Where a sample becomes larger or stays as large,
// `stored` may lie in the memory of `delivered` if both end at the same byte.
void transform_run(const struct transform *transform, const uint8_t *stored, uint8_t *delivered,
                   uint64_t samples);

// As transform_run, with a set of loops of one's own choice.
void transform_run_with(const struct transform_kernels *kernels, const struct transform *transform,
                        const uint8_t *stored, uint8_t *delivered, uint64_t samples);

#endif
