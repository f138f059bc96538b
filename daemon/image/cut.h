// What codec.c asks of each format, and the steps that formats share.
#ifndef FEEDD_DAEMON_IMAGE_CUT_H
#define FEEDD_DAEMON_IMAGE_CUT_H

#include "base/error.h"
#include "daemon/image/codec.h"
#include "daemon/image/image.h"
#include "daemon/image/scratch.h"

// A request in stored coordinates.
struct image_cut {
    uint32_t width, height; // of the image, as its header must say
    uint32_t channels;
    bool labels;
    struct image_rect rect; // within the image
    uint32_t eighths;       // JPEG: the scale; 8 otherwise
};

// Whether an image may have this size; -EFBIG or -EBADMSG.
int image_check_size(uint64_t width, uint64_t height, struct error *error);

// Whether the image still has the size that the cut was made for.
int image_check_same(const struct image_cut *cut, uint32_t width, uint32_t height, struct error *error);

// Makes `pixels` rows of `width` pixels of `bytes_per_pixel`, in `scratch`.
int image_make_rows(struct image *pixels, struct image_scratch *scratch, uint32_t width, uint32_t height,
                    uint32_t channels, uint32_t bytes_per_pixel, struct error *error);

// Changes a row of `count` pixels, in place.
void image_row_rgb_to_grey(uint8_t *row, size_t count);
void image_row_cmyk_to_rgb(uint8_t *row, size_t count); // Adobe's: inverted
void image_row_clip_16(uint8_t *row, size_t count);     // big-endian samples; above 255: 255

#endif
