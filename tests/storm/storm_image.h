// What random_resized_crop and flip make of an image, written from docs/images.md and the descriptions in
// daemon/image/parameters.h, random.h and exact_math.h, and not from the code under test.
#ifndef FEEDD_TESTS_STORM_STORM_IMAGE_H
#define FEEDD_TESTS_STORM_STORM_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#define STORM_SIDE_MOST 64u

// An image as djpeg decodes it, in the truth. Not aligned.
struct storm_image {
    const uint8_t *pixels; // [height][width][channels]
    uint32_t width, height, channels;
    bool doubtful; // cut off: what lies above can be decoded
};

// Of `bytes` in the truth: width, height and channels as u32, the latter plus 256 if it is doubtful, then the pixels.
// False: one that cannot be decoded.
bool storm_image_read(const uint8_t *truth, uint64_t bytes, struct storm_image *image);

// `random_resized_crop SIDE, flip 0.5` of the sample at a place, of a mask with the nearest pixels. False: no memory.
bool storm_image_make(const struct storm_image *image, uint64_t seed, uint64_t epoch, uint64_t position,
                      uint32_t side, bool mask, uint8_t *made);

#endif
