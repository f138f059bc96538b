// EXIF's orientations: where a pixel of the image as it is looked at is stored.
#ifndef FEEDD_DAEMON_IMAGE_ORIENT_H
#define FEEDD_DAEMON_IMAGE_ORIENT_H

#include <stdbool.h>

#include "daemon/image/image.h"

// Of an orientation from 1 to 8. Stored columns are counted from the right and stored rows from the bottom, as said;
// then, with `swapped`, rows become columns.
struct image_orientation {
    bool from_right, from_bottom, swapped;
};
const struct image_orientation *image_orientation(uint32_t exif);

// From the oriented rectangle to the stored one; `width` and `height` are stored.
struct image_rect image_rect_stored(struct image_orientation orientation, struct image_rect rect,
                                    uint32_t width, uint32_t height);

// From the stored place within pixels of that size to the oriented one.
struct image_box image_box_oriented(struct image_orientation orientation, struct image_box box,
                                    uint32_t width, uint32_t height);

// Copies `stored` to `oriented`, whose channels are the same and whose size is the oriented one.
void image_orient(struct image_orientation orientation, const struct image *stored, struct image *oriented);

#endif
