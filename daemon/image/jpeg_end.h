// Whether the bytes of a JPEG reach its end.
#ifndef FEEDD_DAEMON_IMAGE_JPEG_END_H
#define FEEDD_DAEMON_IMAGE_JPEG_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether there is an end marker in what follows the header of the first scan. Then the library cannot run out of
// bytes, whichever rows it decodes: coded data of one scan ends at a marker, also at one in another segment that
// happens to have these two bytes, and of several scans it always reads all. Without one, only decoding all rows tells
// whether bytes are missing.
bool image_jpeg_has_end(const uint8_t *bytes, size_t count);

#endif
