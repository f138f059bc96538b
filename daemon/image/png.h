// PNG with libpng: every colour type and depth, interlaced or not.
#ifndef FEEDD_DAEMON_IMAGE_PNG_H
#define FEEDD_DAEMON_IMAGE_PNG_H

#include "daemon/image/arena.h"
#include "daemon/image/cut.h"

// The size.
int image_png_header(const uint8_t *bytes, size_t count, uint32_t *width, uint32_t *height,
                     struct error *error);

// *pixels has cut->rect. What the library allocates meanwhile is in `arena`, which holds nothing afterwards.
int image_png_decode(struct image_arena *arena, const uint8_t *bytes, size_t count,
                     const struct image_cut *cut, struct image_scratch *scratch, struct image *pixels,
                     struct error *error);

#endif
