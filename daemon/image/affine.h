// Shears, translations and rotations to the nearest pixel, as torchvision's RandAugment and TrivialAugmentWide call
// torchvision.transforms.v2.functional.affine and rotate.
//
// The pixel (x, y) of the result is the pixel (u, v) of the source, or `fill` if that is outside. In float32, with w
// and h the size, X = x - (w - 1) / 2, Y = y - (h - 1) / 2, and (a, b, t; c, d, s) the inverse of the transform about
// the centre:
//   u = round((((X * (a / (w / 2)) + Y * (b / (w / 2))) + t / (w / 2)) + 1) * (w / 2) - 1/2), ties to even
//   v likewise with c, d, s and h / 2
// torch has the sums in the round brackets from a library for matrix products, which may round differently on other
// processors. A pixel that lies half-way between two may then become the other one; nothing else can differ.
#ifndef FEEDD_DAEMON_IMAGE_AFFINE_H
#define FEEDD_DAEMON_IMAGE_AFFINE_H

#include "daemon/image/image.h"

// `scratch` has room for the pixels: width * height * channels bytes. An image has at most IMAGE_MAX_PIXELS pixels
// and IMAGE_MAX_SIDE pixels per side. `fill` has a value per channel.

// u = x + shear * y, as of the corner at the top left; |shear| <= 1.
void image_shear_x(struct image *image, double shear, const uint8_t fill[3], uint8_t *scratch);
void image_shear_y(struct image *image, double shear, const uint8_t fill[3], uint8_t *scratch);

// Moves the content to the right, or down, by whole pixels, which may be negative.
void image_translate_x(struct image *image, int64_t pixels, const uint8_t fill[3]);
void image_translate_y(struct image *image, int64_t pixels, const uint8_t fill[3]);

// Turns the content about the centre, counter-clockwise; |degrees| <= 360.
void image_rotate(struct image *image, double degrees, const uint8_t fill[3], uint8_t *scratch);

// The sine and the cosine of up to +-360 degrees, from IEEE operations alone: the same bits on every machine, and the
// nearest float32 once rounded to one but for about one value in 10^8.
void image_sine_cosine(double degrees, double *sine, double *cosine);

#endif
