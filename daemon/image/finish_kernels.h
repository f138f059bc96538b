// The inner loops of finishing images, once per instruction set that makes them faster. All sets yield the same bits.
#ifndef FEEDD_DAEMON_IMAGE_FINISH_KERNELS_H
#define FEEDD_DAEMON_IMAGE_FINISH_KERNELS_H

#include "daemon/image/finish.h"

struct finish_kernels {
    const char *name;
    // One channel of `count` pixels, `step` bytes apart (1 or 3), in order or the last one first.
    void (*split)(const uint8_t *pixels, size_t step, bool mirror, size_t count, uint8_t *to);
    // `count` pixels of 1 or 3 channels, the last one first.
    void (*mirror)(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *to);
    // Elements of 1, 2 or 4 bytes, at any alignment.
    void (*look_up)(const uint8_t *table, uint32_t element, const uint8_t *values, size_t count, uint8_t *to);
    // The same of whole pixels of three channels, each of which has a table of its own.
    void (*look_up_colours)(const uint8_t *tables, uint32_t element, const uint8_t *values, size_t count,
                            uint8_t *to);
};

extern const struct finish_kernels finish_plain;

// The fastest first; NULL after the last one that this processor can run.
const struct finish_kernels *finish_kernels(uint32_t index);

#endif
