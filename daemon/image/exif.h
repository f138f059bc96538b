// EXIF's orientation in an encoded image, and nothing else of EXIF. Whatever is not as it should be counts as absent:
// an image is not worth less because a camera wrote its notes wrongly.
#ifndef FEEDD_DAEMON_IMAGE_EXIF_H
#define FEEDD_DAEMON_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

// 1 to 8; 1 if there is none. JPEG: of the first APP1 segment with EXIF before the first scan. PNG: of its eXIf
// chunk. WebP: of its EXIF chunk.
uint32_t exif_of_jpeg(const uint8_t *bytes, size_t count);
uint32_t exif_of_png(const uint8_t *bytes, size_t count);
uint32_t exif_of_webp(const uint8_t *bytes, size_t count);

#endif
