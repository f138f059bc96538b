// WebP with libwebp: still images, lossy or lossless. The library has no hook for its memory: that comes from malloc().
#ifndef FEEDD_DAEMON_IMAGE_WEBP_H
#define FEEDD_DAEMON_IMAGE_WEBP_H

#include "daemon/image/cut.h"

// The size.
int image_webp_header(const uint8_t *bytes, size_t count, uint32_t *width, uint32_t *height,
                      struct error *error);

// *pixels has cut->rect.
int image_webp_decode(const uint8_t *bytes, size_t count, const struct image_cut *cut,
                      struct image_scratch *scratch, struct image *pixels, struct error *error);

#endif
