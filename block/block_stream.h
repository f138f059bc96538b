// Decodes a block in parts, from front to back: for whoever needs only its beginning, or has no room for all of it.
#ifndef FEEDD_BLOCK_BLOCK_STREAM_H
#define FEEDD_BLOCK_BLOCK_STREAM_H

#include <stddef.h>

#include "base/error.h"
#include "block/block.h"

struct block_stream;

// BLOCK_LZ4_FRAME or BLOCK_ZSTD. One thread at a time.
int block_stream_open(struct block_stream **stream, enum block_codec codec, struct error *error);
void block_stream_close(struct block_stream *stream); // NULL is fine

// Begins with another block.
void block_stream_restart(struct block_stream *stream);

// Takes some of `stored`, makes some of `decoded`, and says how many bytes. -EBADMSG with a sentence.
int block_stream_decode(struct block_stream *stream, const uint8_t *stored, size_t *stored_bytes,
                        uint8_t *decoded, size_t *decoded_bytes, struct error *error);

#endif
