// The inner loops of transforms, once per instruction set that makes them faster. All sets yield the same bits.
#ifndef FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_KERNELS_H
#define FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_KERNELS_H

#include "base/dtype.h"
#include "daemon/dataset/transform.h"

#define KERNEL_DTYPES (DTYPE_F64 + 1)

// Memory that is `from` a slot or goes `to` one need not be aligned; the two do not overlap.
struct transform_kernels {
    const char *name;
    void (*load[KERNEL_DTYPES])(float *to, const void *from, size_t count);  // NULL: not a number, or complex
    void (*store[KERNEL_DTYPES])(void *to, const float *from, size_t count); // NULL: never delivered
    // x[i] by `value`, or by values[i]; by enum transform_kind, up to TRANSFORM_STD.
    void (*one[TRANSFORM_STANDARDISE])(float *x, float value, size_t count);
    void (*each[TRANSFORM_STANDARDISE])(float *x, const float *values, size_t count);
    // Adds x[i], or (x[i] - mean)^2, to lanes[i % TRANSFORM_LANES].
    void (*sum)(double *lanes, const float *x, size_t count);
    void (*squares)(double *lanes, const float *x, double mean, size_t count);
};

// The fastest first; NULL after the last one that this processor can run.
const struct transform_kernels *transform_kernels(uint32_t index);

#endif
