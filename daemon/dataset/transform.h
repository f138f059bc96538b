// How loaders transform a field before it is delivered: steps of float32 arithmetic, the resulting type, and the order
// of an image's axes.
//
// Every step rounds once, in the order written: scale is x * v, shift x + v, mean x - v, std x / v, each with v rounded
// to float32 first, so that NumPy gives the same bits. standardise is x - m, then divided by s (both float32), where m
// and s are rounded from the mean and the population's standard deviation of the sample, which are computed in float64:
//   sum(y) = the 16 sums over y[k], y[k + 16], y[k + 32], ... for k = 0..15, added up in the order of k
//   mean = sum(x) / n, deviation = sqrt(sum((x - mean)^2) / n)
// and a sample whose s is 0 becomes all zeros. Elements are in the order in which they are stored, those of an image
// that steps on images made in the order [H,W,C]. Conversion to f32 and from f32 rounds to nearest, ties to even.
//
// A cast to an integer type rounds to nearest, ties to even; what is too small or too large becomes the type's least or
// greatest value, and NaN 0. If there is no other step, it is made from the stored value, not by way of float32:
// integers stay exact.
//
// A step with a number for each channel counts the channels along the first axis, or, if there is a layout, along the
// channels' axis of the stored image.
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

enum transform_layout {
    TRANSFORM_NO_LAYOUT,
    TRANSFORM_CHW,
    TRANSFORM_HWC,
};

// Part of a dataset's layout. All zero: the field is delivered as it is stored.
struct transform {
    uint32_t stored; // dtype of what is stored; 0: no transform
    uint32_t target; // dtype of what is delivered; before transform_fit, 0 if there is no cast
    uint32_t step_count;
    uint32_t layout;      // enum transform_layout, as written
    uint32_t arrangement; // ... of what is stored; TRANSFORM_NO_LAYOUT: it is not an image
    uint32_t planes;      // 1: an image that is delivered as [C,H,W]
    uint64_t elements;    // of a sample
    uint64_t channels;
    uint64_t channel; // element i of what is stored is one of channel i / channel % channels
    struct transform_step steps[TRANSFORM_MAX_STEPS];
};

// Whether fields of that type can be transformed: all but complex ones.
bool transform_takes(uint32_t dtype);

// From "scale 1/255, mean 0.5, layout chw, cast f16" to target, layout and steps; from "", to none.
// -EINVAL and a sentence "found ..., wanted ...".
int transform_parse(const char *text, struct transform *transform, struct error *error);

// Fits a parsed transform to the samples of a field. -EINVAL and a sentence.
int transform_fit(struct transform *transform, uint32_t dtype, uint32_t dimensions, const uint64_t *shape,
                  struct error *error);

// Fits it to images of u8[height,width,channels] that steps on images have made. -EINVAL and a sentence.
int transform_fit_image(struct transform *transform, uint32_t height, uint32_t width, uint32_t channels,
                        struct error *error);

// Fits one that has been fitted to other samples of the same type: [channels,size], delivered in the same order.
void transform_fit_planes(struct transform *transform, uint64_t channels, uint64_t size);

// From the shape that is stored to the one that is delivered: [H,W,C] or [C,H,W] if there is a layout, also of an
// image of [H,W]. `shape` has room for 3 dimensions.
void transform_shape(const struct transform *transform, uint32_t *dimensions, uint64_t *shape);

// Whether elements of a channel that are equal become equal ones, whatever else is in the sample.
bool transform_is_of_values(const struct transform *transform);

// Whether elements change places.
bool transform_moves(const struct transform *transform);

#endif
