// What the random numbers of a step decide, version 1. u stands for the step's next number in [0, 1), and everything is
// float64, each operation rounded once (image_random_uniform, image_random_below, daemon/image/exact_math.h).
#ifndef FEEDD_DAEMON_IMAGE_PARAMETERS_H
#define FEEDD_DAEMON_IMAGE_PARAMETERS_H

#include "daemon/image/image.h"
#include "daemon/image/random.h"
#include "daemon/image/steps.h"

// Of flip, vertical_flip, grayscale and erase: u < its probability.
bool image_random_happens(const struct image_step *step, struct image_random *random);

// Of brightness, contrast, saturation and hue: lowest + (highest - lowest) * u.
double image_random_factor(const struct image_step *step, struct image_random *random);

// Of random_resized_crop, for an image of at least one pixel. Ten times at most, with the step's area A to B and ratio
// C to D:
//   a = width * height * (A + (B - A) * u)
//   r = exp(ln C + (ln D - ln C) * u)
//   w = sqrt(a * r), h = sqrt(a / r), both rounded to the nearest whole number, ties to even
// until 1 <= w <= width and 1 <= h <= height; then y is a random number below height - h + 1, and x one below
// width - w + 1. If it never is, the crop is as large as the ratio permits, and in the middle: if width / height < C,
// w = width and h = w / C, rounded; if it is > D, h = height and w = h * D, rounded; else all of the image. Such a side
// is at least 1, y = floor((height - h) / 2), x = floor((width - w) / 2).
void image_random_crop(const struct image_step *step, struct image_random *random, uint32_t width,
                       uint32_t height, struct image_rect *crop);

// Of erase, after it happens. As above with h = sqrt(a * r) and w = sqrt(a / r), until h < height and w < width; either
// may be 0. If they never are, nothing is erased: an empty rectangle.
void image_random_erasure(const struct image_step *step, struct image_random *random, uint32_t width,
                          uint32_t height, struct image_rect *erased);

#endif
