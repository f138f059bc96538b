// Pixels in memory, and places in them: what all of daemon/image/ works on. Nothing here knows datasets, loaders or
// rings.
#ifndef FEEDD_DAEMON_IMAGE_IMAGE_H
#define FEEDD_DAEMON_IMAGE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_MAX_SIDE   65535u
#define IMAGE_MAX_PIXELS 178956970u // beyond which Pillow takes an image for an attack

struct image {
    uint8_t *pixels;
    uint32_t width, height;
    uint32_t channels; // 1 or 3
    size_t stride;     // bytes from one row to the next
};

// Whole pixels.
struct image_rect {
    uint32_t x, y, width, height;
};

// In pixels, whose centres are at halves; as Pillow's resize(box=).
struct image_box {
    double left, top, right, bottom;
};

#endif
