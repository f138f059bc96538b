// Frames of LZ4, with liblz4.
#ifndef FEEDD_BLOCK_BLOCK_LZ4_H
#define FEEDD_BLOCK_BLOCK_LZ4_H

#include "base/error.h"

// NULL: no memory.
void *block_lz4_open(void);
void block_lz4_close(void *context);

// One frame, which becomes exactly `decoded_bytes`. -EBADMSG with a sentence.
int block_lz4_decode(void *context, const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded,
                     uint64_t decoded_bytes, struct error *error);

// A part of a frame: takes some of the stored bytes, makes some of the decoded ones, and says how many. Begins with a
// frame after block_lz4_restart.
void block_lz4_restart(void *context);
int block_lz4_some(void *context, const uint8_t *stored, size_t *stored_bytes, uint8_t *decoded,
                   size_t *decoded_bytes, struct error *error);

#endif
