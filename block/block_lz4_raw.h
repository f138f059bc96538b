// LZ4 without a frame, with liblz4.
#ifndef FEEDD_BLOCK_BLOCK_LZ4_RAW_H
#define FEEDD_BLOCK_BLOCK_LZ4_RAW_H

#include "base/error.h"

// What becomes exactly `decoded_bytes`. -EBADMSG with a sentence.
int block_lz4_raw_decode(const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded,
                         uint64_t decoded_bytes, struct error *error);

#endif
