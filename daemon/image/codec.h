// Encoded images to pixels: JPEG, PNG and WebP, told apart by their content. The bytes may be hostile; nothing is
// written to stderr, no file is opened, and no thread is started.
//
// What is delivered, bit for bit: the pixels of Pillow's Image.open(...).convert("RGB") (3 channels) or convert("L")
// (1 channel), cut to the rectangle. So JPEG is decoded with accurate integer DCT and fancy upsampling, CMYK and YCCK
// are read as Adobe stores them (inverted), transparency is dropped, and 16-bit grey is clipped to 255, not divided;
// 16-bit colour keeps its upper 8 bits. "L" is (19595 R + 38470 G + 7471 B + 32768) / 65536. Colour profiles and
// gamma are ignored.
//
// Of labels, what differs from "L": the indices of a PNG with a palette, as NumPy has them of Pillow's mode P; and a
// grey PNG of 16 bits is refused (-EBADMSG) if a pixel of the rectangle is above 255.
//
// Bytes that end too early are an error, whichever rectangle is wanted: an image without its end is decoded as a whole,
// and one with it only as far as the rectangle needs, so that damage below the rectangle may not be found. Of what is
// decoded, whatever the library calls an error is one. What it calls a warning (JPEG: damaged entropy-coded data,
// extraneous bytes; PNG: a damaged chunk that may be left out) is tolerated, as Pillow does, and its pixels are
// delivered.
//
// Errors, each with a sentence that begins with "its": -EBADMSG: damaged, or not allowed; -ENOTSUP: neither JPEG, PNG
// nor WebP, or a variant that is not decoded (animated WebP); -EFBIG: beyond IMAGE_MAX_SIDE or IMAGE_MAX_PIXELS;
// -ENOMEM.
#ifndef FEEDD_DAEMON_IMAGE_CODEC_H
#define FEEDD_DAEMON_IMAGE_CODEC_H

#include <stdbool.h>

#include "base/error.h"
#include "daemon/image/image.h"

enum image_format {
    IMAGE_JPEG = 1,
    IMAGE_PNG,
    IMAGE_WEBP
};

struct image_header {
    uint32_t format;        // enum image_format
    uint32_t width, height; // as stored
    uint32_t orientation;   // EXIF's, 1 to 8; 1 if there is none
};

// Any thread. `count` may be less than the whole image if the header is in it.
int image_read_header(const uint8_t *bytes, size_t count, struct image_header *header, struct error *error);

// The size after EXIF's orientation: width and height change places from 5 on.
void image_oriented_size(const struct image_header *header, uint32_t *width, uint32_t *height);

// Memory and state that are reused from image to image. One thread at a time.
struct image_decoder;
int image_decoder_open(struct image_decoder **decoder, struct error *error);
void image_decoder_close(struct image_decoder *decoder); // NULL is fine

struct image_request {
    struct image_header header; // of the same bytes; a decode of others fails
    uint32_t channels;          // 1 or 3 are wanted
    bool labels;                // of 1 channel: pixels are numbers
    bool oriented;              // EXIF's orientation is applied, and `rect` is in the oriented image
    struct image_rect rect;     // the pixels that are needed: not empty, within the image
    // With `decode fast`, JPEG is decoded at n/8 of its size, for the smallest n of 1, 2, 4 and 8 with which `rect`
    // stays at least this large. 0: exact.
    uint32_t fast_width, fast_height;
};

// *pixels is the decoder's memory, until its next call; *box (which may be NULL) says where `rect` lies in it: all of
// it, unless it was decoded at a smaller scale, when its edges may lie within pixels.
int image_decode(struct image_decoder *decoder, const uint8_t *bytes, size_t count,
                 const struct image_request *request, struct image *pixels, struct image_box *box,
                 struct error *error);

#endif
