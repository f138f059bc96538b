// The inner loops of operations on pixels, once per instruction set that makes them faster. All sets yield the same
// bits.
#ifndef FEEDD_DAEMON_IMAGE_COLOUR_KERNELS_H
#define FEEDD_DAEMON_IMAGE_COLOUR_KERNELS_H

#include <stddef.h>
#include <stdint.h>

// Where the pixels of a row of the result come from; see daemon/image/affine.h for the formulas.
struct affine_row {
    float x_by_x, x_by_y, x_offset; // the row of the matrix for x, y's product being done
    float y_by_x, y_by_y, y_offset;
    float first;              // coordinate of the row's first pixel
    float width, height;      // of the source
    int32_t channels, stride; // of the source
};

#define AFFINE_OUTSIDE (-1)

// What two pointers lead to does not overlap, except that rgb and levels are read and written in place.
struct colour_kernels {
    const char *name;
    // values[i] = table[values[i]]; for map_rgb, values of channel c by tables[c].
    void (*map)(uint8_t *values, size_t count, const uint8_t table[256]);
    void (*map_rgb)(uint8_t *rgb, size_t pixels, uint8_t tables[3][256]);
    void (*grayscale)(uint8_t *rgb, size_t pixels);
    uint64_t (*sum_levels)(const uint8_t *rgb, size_t pixels);
    void (*saturate)(uint8_t *rgb, size_t pixels, float factor, float rest);
    void (*hue)(uint8_t *rgb, size_t pixels, float turn);
    // The least and the greatest value of each channel, as far as they exceed those given.
    void (*range)(const uint8_t *values, size_t count, uint32_t channels, uint8_t least[3],
                  uint8_t greatest[3]);
    // A row without its first and last pixel: to[i] for i in channels..count - channels - 1.
    void (*sharpen)(uint8_t *to, const uint8_t *above, const uint8_t *row, const uint8_t *below, size_t count,
                    size_t channels, float rest);
    // offsets[i]: of the source's pixel for x = begin + i, or AFFINE_OUTSIDE.
    void (*locate)(int32_t *offsets, uint32_t begin, uint32_t count, const struct affine_row *row);
};

// The fastest first; NULL after the last one that this processor can run.
const struct colour_kernels *colour_kernels(uint32_t index);

#endif
