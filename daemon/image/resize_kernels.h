// The inner loops of resizing, once per instruction set that makes them faster. All sets yield the same bits.
#ifndef FEEDD_DAEMON_IMAGE_RESIZE_KERNELS_H
#define FEEDD_DAEMON_IMAGE_RESIZE_KERNELS_H

#include "daemon/image/resize_axis.h"

#define RESIZE_ROWS 4u // rows that are resized together
#define RESIZE_OVER                                                                                          \
    64u // bytes by which `across` may write more than a row's results, those of padding included

struct resize_kernels {
    const char *name;
    // Fills axis->packed from axis->weights. Layout: RESIZE_LAYOUT_ONE for `across` with one channel, else _QUAD.
    void (*pack)(struct resize_axis *axis);
    // Resizes RESIZE_ROWS rows of 1 or 3 channels. from[i] points to the pixel axis->first; resize_axis_reach says how
    // many bytes are read from there. to[i] has room for resize_row_bytes.
    void (*across)(const struct resize_axis *axis, uint32_t channels, const uint8_t *const *from,
                   uint8_t *const *to);
    // Makes a row, the result of that number, from the `used` rows from `from` on. Reads and writes `bytes` of each
    // row.
    void (*down)(const struct resize_axis *axis, uint32_t result, const uint8_t *from, size_t stride,
                 size_t bytes, uint8_t *to);
};

// What `across` reads of a row. May be beyond its end: what lies there does not change the results.
size_t resize_axis_reach(const struct resize_axis *axis, uint32_t channels);

// What `across` may write of a row: a multiple of a cache line.
size_t resize_row_bytes(uint32_t results, uint32_t channels);

// The fastest first; NULL after the last one that this processor can run.
const struct resize_kernels *resize_kernels(uint32_t index);

// A sum of products to a pixel: adds half, drops the bits behind the point, and clips. The sum is modulo 2^32, but
// fits into 32 bits.
static inline uint8_t resize_pixel(uint32_t sum) {
    int32_t value = (int32_t)(sum + (1u << (RESIZE_PRECISION - 1))) >> RESIZE_PRECISION;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

#endif
