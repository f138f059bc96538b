// Fields that are images, as 8-bit pixels. Pure.
#ifndef FEEDD_CLIENT_CTL_IMAGE_H
#define FEEDD_CLIENT_CTL_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "client/ctl/element.h"
#include "client/feed.h"

#define IMAGE_LEAST 8 // pixels in height and in width

struct image {
    uint32_t width, height;
    uint32_t channels; // 1: grey, 3: RGB, 4: RGB and opacity, which does not darken the colours
    uint8_t *pixels;   // row after row, the channels of a pixel together
};

// Whether a sample of the field is an image: bool, u8 or floating-point numbers of shape [H,W], [H,W,C] or [C,H,W]
// where C is 1, 3 or 4. What that needs, for messages:
#define IMAGE_WANTED                                                                                         \
    "bool, u8 or floats of [H,W], [H,W,C] or [C,H,W], where H and W are 8 or more and C is 1, 3 or 4"
bool image_is(const struct feed_array *field);
// The same; of `size` everything except the pixels is set.
bool image_size(const struct feed_array *field, struct image *size);

// The image in a batch of one sample. Floats are scaled so that the least finite one becomes 0 and the greatest 255;
// NaN becomes 0. -ENOMEM
int image_make(struct image *image, const struct feed_array *field, const struct summary *summary);

// A smaller one that fits into `width` x `height`, by averaging, weighted with opacity; or a copy if it fits as it is.
// -ENOMEM
int image_shrink(const struct image *image, uint32_t width, uint32_t height, struct image *small);

void image_free(struct image *image);

#endif
