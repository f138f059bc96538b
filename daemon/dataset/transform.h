// How loaders transform a field before it is delivered: steps of float32 arithmetic, and the resulting type.
//
// Every step rounds once, in the order written: scale is x * v, shift x + v, mean x - v, std x / v, each with v rounded
// to float32 first, so that NumPy gives the same bits. standardise is x - m, then divided by s (both float32), where m
// and s are rounded from the mean and the population's standard deviation of the sample, which are computed in float64:
//   sum(y) = the 16 sums over y[k], y[k + 16], y[k + 32], ... for k = 0..15, added up in the order of k
//   mean = sum(x) / n, deviation = sqrt(sum((x - mean)^2) / n)
// and a sample whose s is 0 becomes all zeros. Conversion to f32 and from f32 rounds to nearest, ties to even.
#ifndef FEEDD_DAEMON_DATASET_TRANSFORM_H
#define FEEDD_DAEMON_DATASET_TRANSFORM_H

#include "base/error.h"

#define TRANSFORM_MAX_STEPS  8u
#define TRANSFORM_MAX_VALUES 32u // channels that a step can distinguish
#define TRANSFORM_LANES      16u // partial sums of standardise

enum transform_kind {
    TRANSFORM_SCALE,
    TRANSFORM_SHIFT,
    TRANSFORM_MEAN,
    TRANSFORM_STD,
    TRANSFORM_STANDARDISE,
};

struct transform_step {
    uint32_t kind;
    uint32_t count; // of values: 1, or one per channel
    float values[TRANSFORM_MAX_VALUES];
};

// Part of a dataset's layout. All zero: the field is delivered as it is stored.
struct transform {
    uint32_t stored; // dtype of what is stored; 0: no transform
    uint32_t target; // dtype of what is delivered: f32, f16 or bf16
    uint32_t step_count;
    uint32_t reserved;
    uint64_t elements; // of a sample
    uint64_t channel;  // elements of one entry of its first axis
    struct transform_step steps[TRANSFORM_MAX_STEPS];
};

// Whether fields of that type can be transformed: all but complex ones.
bool transform_takes(uint32_t dtype);

// From "scale 1/255, mean 0.5, cast f16" to target and steps. -EINVAL and a sentence "found ..., wanted ...".
int transform_parse(const char *text, struct transform *transform, struct error *error);

// Fits a parsed transform to the samples of a field. -EINVAL and a sentence.
int transform_fit(struct transform *transform, uint32_t dtype, uint32_t dimensions, const uint64_t *shape,
                  struct error *error);

#endif
