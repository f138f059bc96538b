#include "daemon/image/orient.h"

// EXIF 2.3, section 4.6.4: where the stored row 0 and column 0 are seen.
const struct image_orientation *image_orientation(uint32_t exif) {
    static const struct image_orientation all[] = {
        [1] = {false, false, false}, // top, left
        [2] = {true, false, false},  // top, right
        [3] = {true, true, false},   // bottom, right
        [4] = {false, true, false},  // bottom, left
        [5] = {false, false, true},  // left, top
        [6] = {false, true, true},   // right, top
        [7] = {true, true, true},    // right, bottom
        [8] = {true, false, true},   // left, bottom
    };
    return &all[exif >= 1 && exif <= 8 ? exif : 1];
}

struct image_rect image_rect_stored(struct image_orientation orientation, struct image_rect rect,
                                    uint32_t width, uint32_t height) {
    if (orientation.swapped)
        rect = (struct image_rect){rect.y, rect.x, rect.height, rect.width};
    if (orientation.from_right)
        rect.x = width - rect.x - rect.width;
    if (orientation.from_bottom)
        rect.y = height - rect.y - rect.height;
    return rect;
}

struct image_box image_box_oriented(struct image_orientation orientation, struct image_box box,
                                    uint32_t width, uint32_t height) {
    if (orientation.from_right)
        box = (struct image_box){width - box.right, box.top, width - box.left, box.bottom};
    if (orientation.from_bottom)
        box = (struct image_box){box.left, height - box.bottom, box.right, height - box.top};
    if (orientation.swapped)
        box = (struct image_box){box.top, box.left, box.bottom, box.right};
    return box;
}

void image_orient(struct image_orientation orientation, const struct image *stored, struct image *oriented) {
    const size_t channels = stored->channels;
    // Bytes between neighbours in `oriented`, for the next stored column and the next stored row.
    ptrdiff_t column = (ptrdiff_t)(orientation.swapped ? oriented->stride : channels);
    ptrdiff_t row = (ptrdiff_t)(orientation.swapped ? channels : oriented->stride);
    uint8_t *first = oriented->pixels;
    if (orientation.from_right) {
        first += column * (ptrdiff_t)(stored->width - 1);
        column = -column;
    }
    if (orientation.from_bottom) {
        first += row * (ptrdiff_t)(stored->height - 1);
        row = -row;
    }
    for (uint32_t y = 0; y < stored->height; y++) {
        const uint8_t *from = stored->pixels + y * stored->stride;
        uint8_t *to = first + row * (ptrdiff_t)y;
        for (uint32_t x = 0; x < stored->width; x++, from += channels, to += column)
            for (size_t channel = 0; channel < channels; channel++)
                to[channel] = from[channel];
    }
}
