// Whether a JPEG is what its record says. An engine writes as many pixels as the JPEG's own header says, into memory
// beside which other users' pools may lie, and a loader could have put another JPEG there than it planned for.
#ifndef FEEDD_DAEMON_TRANSFER_PLAIN_JPEG_H
#define FEEDD_DAEMON_TRANSFER_PLAIN_JPEG_H

#include <stddef.h>

#include "shm/image_record.h"

// One baseline frame of 8 bits, of the record's size and sampling, with one scan of all its components; then the end,
// and nothing behind it. The bytes are not written to meanwhile.
bool plain_jpeg_is(const uint8_t *bytes, size_t count, const struct image_record *record);

#endif
