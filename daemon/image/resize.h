// Resizes images to the same bits as Pillow's Image.resize(size, filter, box=) on x86-64, for its modes L and RGB.
//
// bilinear and bicubic (Keys, a = -1/2) are widened by the reduction, so that every pixel of the box counts. For each
// axis, with s = (end - begin) / size, f = max(s, 1) and r = f (bilinear) or 2 f (bicubic), result i is a sum over
// the pixels from floor(c - r + 1/2) to floor(c + r + 1/2) - 1 around c = begin + (i + 1/2) s, as far as they exist.
// The weight of pixel j is filter((j + 1/2 - c) / f), divided by the sum of all weights in float64, and rounded to a
// multiple of 2^-22. The axes are resized one after the other, with 8 bits in between. nearest takes the pixel at
// begin + s/2 + s + s + ..., added up in float64, and black where rounding leads out of the source. The box is
// rounded to float32 before anything else.
//
// Which axis is first matters to the bits. In Pillow up to 12.1, along rows; in 12.2 and 12.3, along columns if the
// source is more than 100 times as high as wide and its height is reduced; in 13.0, as image_resize_order_13 says.
#ifndef FEEDD_DAEMON_IMAGE_RESIZE_H
#define FEEDD_DAEMON_IMAGE_RESIZE_H

#include <stdbool.h>

#include "base/error.h"
#include "daemon/image/image.h"

enum image_filter {
    IMAGE_NEAREST,
    IMAGE_BILINEAR,
    IMAGE_BICUBIC
};

struct image_resize {
    uint32_t source_width, source_height;
    struct image_box box;   // of the source; may be empty, but not inverted
    uint32_t width, height; // of the whole result
    enum image_filter filter;
    bool columns_first;     // no matter for nearest
    struct image_rect part; // of the result; only this is computed
};

// Scratch memory and the weights of recent resizes. One thread at a time.
struct image_resizer;

// -ENOMEM and a sentence.
int image_resizer_open(struct image_resizer **resizer, struct error *error);
// NULL is fine.
void image_resizer_close(struct image_resizer *resizer);

// -EINVAL and a sentence if the sides are not within 1..IMAGE_MAX_SIDE, the box is not within the source, or the part
// is empty or not within the result.
int image_resize_check(const struct image_resize *resize, struct error *error);

// Whether Pillow 13.0 resizes along columns first: if the height is reduced by more than twice as many pixels as the
// width, the sides being those of the whole source.
bool image_resize_order_13(const struct image_resize *resize);

// The source pixels on which the part depends. `resize` has passed image_resize_check.
void image_resize_needs(const struct image_resize *resize, struct image_rect *needed);

// Computes the part into `to`, the caller's memory, of the part's size; nothing beside its pixels is written. `from`
// holds from_rect of the source, which covers what is needed; what lies between its rows may be read, too. `to` and
// `from` have the same channels and do not overlap.
// -EINVAL, -ENOMEM and a sentence; then the pixels of `to` are undefined.
int image_resize_run(struct image_resizer *resizer, const struct image_resize *resize,
                     const struct image *from, struct image_rect from_rect, struct image *to,
                     struct error *error);

// For tests and measurements: uses the instruction set of that number from now on, the fastest first. Its name, or
// NULL if this processor has none of that number.
const char *image_resizer_use(struct image_resizer *resizer, uint32_t number);

#endif
