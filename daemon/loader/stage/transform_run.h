// Transforms samples that were read: see daemon/dataset/transform.h for the arithmetic.
#ifndef FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_RUN_H
#define FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_RUN_H

#include "daemon/dataset/transform.h"

struct transform_kernels;

// From `stored` to `delivered`, which both hold contiguous samples. If samples do not shrink and no elements change
// places (transform_moves), `stored` may lie in the memory of `delivered`, provided that both end at the same byte.
void transform_run(const struct transform *transform, const uint8_t *stored, uint8_t *delivered,
                   uint64_t samples);

// As transform_run, with the given set of loops.
void transform_run_with(const struct transform_kernels *kernels, const struct transform *transform,
                        const uint8_t *stored, uint8_t *delivered, uint64_t samples);

#endif
