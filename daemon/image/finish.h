// The last step of an image: mirrored or not, each value looked up in a table, interleaved or in planes, into a slot.
#ifndef FEEDD_DAEMON_IMAGE_FINISH_H
#define FEEDD_DAEMON_IMAGE_FINISH_H

#include <stdbool.h>

#include "daemon/image/image.h"

#define IMAGE_TABLE_VALUES 256u

struct image_finish {
    // What the values 0..255 become: IMAGE_TABLE_VALUES elements for each channel, one channel after the other, at any
    // alignment. NULL: values are copied, and element_bytes is 1. A transform that treats all elements of a channel
    // alike makes the table when it is run on the bytes 0..255 as a sample of shape [channels, 256].
    const void *table;
    uint32_t element_bytes; // 1, 2 or 4
    bool planes;            // chw, else hwc
    bool mirror;            // left and right exchanged
};

// Bytes that image_finish_run writes for an image of that size.
static inline size_t image_finish_bytes(const struct image_finish *finish, const struct image *image) {
    return (size_t)image->width * image->height * image->channels * finish->element_bytes;
}

// Writes every byte of `slot` once, front to back. `slot` has any alignment and does not overlap `from`; nothing
// outside the pixels of `from` is read. Does not fail.
void image_finish_run(const struct image_finish *finish, const struct image *from, void *slot);

// The same with the instruction set of that number, the fastest first, for tests and measurements. Returns its name, or
// NULL without doing anything if this processor has none of that number.
const char *image_finish_run_with(uint32_t number, const struct image_finish *finish,
                                  const struct image *from, void *slot);

// `count` pixels of 1 or 3 channels, the last one first, to memory that does not overlap them.
void image_mirror_row(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *to);

#endif
