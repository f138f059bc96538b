// Frames of Zstandard, with libzstd.
#ifndef FEEDD_BLOCK_BLOCK_ZSTD_H
#define FEEDD_BLOCK_BLOCK_ZSTD_H

#include "base/error.h"

// NULL: no memory.
void *block_zstd_open(void);
void block_zstd_close(void *context);

// Whole frames, which become exactly `decoded_bytes`. -EBADMSG with a sentence.
int block_zstd_decode(void *context, const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded,
                      uint64_t decoded_bytes, struct error *error);

// A part of a frame: takes some of the stored bytes, makes some of the decoded ones, and says how many. Begins with a
// frame after block_zstd_restart.
void block_zstd_restart(void *context);
int block_zstd_some(void *context, const uint8_t *stored, size_t *stored_bytes, uint8_t *decoded,
                    size_t *decoded_bytes, struct error *error);

#endif
