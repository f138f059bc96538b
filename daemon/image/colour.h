// Operations on the colours of an image, in place.
//
// The results are those of torchvision.transforms.v2.functional on uint8 tensors. torchvision's arithmetic is
// float32, and is not the same everywhere: with AVX2 or AVX-512, torch rounds x + y * z once, elsewhere twice. It is
// always once here, and all else is single IEEE operations, so that the bits are the same on every machine:
//   grey(r, g, b) = floor(fma(b, 0.114, fma(g, 0.587, r * 0.2989)))
//   blend(x, y)   = fma(y, 1 - factor, x * factor), cut to 0..255, fraction dropped
// They equal torchvision's with AVX2 or AVX-512, with two exceptions, where values differ by at most 1 (factors up to
// 1000): in adjust_contrast torch rounds the last values of a tensor (numel % 32, or 16 with AVX2) twice, and its sum
// of levels of grey may be inexact above 2^24, which takes more than 65,793 pixels. tests/python/test_torch_image.py
// compares them.
//
// A factor is 0 to IMAGE_MAX_FACTOR. Images may have any number of pixels, also none. Functions are pure and may run
// in any thread.
#ifndef FEEDD_DAEMON_IMAGE_COLOUR_H
#define FEEDD_DAEMON_IMAGE_COLOUR_H

#include "daemon/image/image.h"

#define IMAGE_MAX_FACTOR 1e6

// x * factor, cut to 0..255, fraction dropped.
void image_brightness(struct image *image, double factor);

// Blends with the mean level of grey: float32(sum / count), the sum being exact.
void image_contrast(struct image *image, double factor);

// Blends each pixel with its level of grey. Does nothing to an image of one channel.
void image_saturation(struct image *image, double factor);

// Turns the hue by a fraction of the circle, -0.5 to 0.5, through HSV. Does nothing to an image of one channel.
void image_hue(struct image *image, double turn);

// All channels become the level of grey.
void image_grayscale(struct image *image);

// Fills the part of the rectangle that lies within the image.
void image_erase(struct image *image, struct image_rect rect, const uint8_t fill[3]);

void image_invert(struct image *image);

// Keeps the highest `bits` of each value, 0 to 8.
void image_posterize(struct image *image, uint32_t bits);

// Inverts values of at least float32(threshold).
void image_solarize(struct image *image, double threshold);

// Stretches each channel to 0..255: (x - least) / ((greatest - least) * (1 / 255)), fraction dropped.
void image_autocontrast(struct image *image);

// Gives each channel an even histogram, in Pillow's integer arithmetic.
void image_equalize(struct image *image);

// Blends with its mean over 3 x 3 pixels, in which the pixel itself counts five times: fma(mean - x, 1 - factor, x).
// The outermost pixels stay as they are. `scratch` has room for two rows: 2 * width * channels bytes.
void image_sharpness(struct image *image, double factor, uint8_t *scratch);

#endif
