// Gzip and zlib streams, with zlib.
#ifndef FEEDD_BLOCK_BLOCK_GZIP_H
#define FEEDD_BLOCK_BLOCK_GZIP_H

#include "base/error.h"

// What becomes exactly `decoded_bytes`. -EBADMSG with a sentence.
int block_gzip_decode(const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded, uint64_t decoded_bytes,
                      struct error *error);

#endif
