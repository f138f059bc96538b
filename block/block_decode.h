// From the stored bytes of a block to what samples are copied from. Stored bytes may be hostile: nothing is read or
// written beyond what the block says it has.
#ifndef FEEDD_BLOCK_BLOCK_DECODE_H
#define FEEDD_BLOCK_BLOCK_DECODE_H

#include "base/error.h"
#include "block/block.h"

// What decoding needs from one block to the next. One thread at a time.
struct block_decoder {
    void *lz4, *zstd; // contexts of the libraries
};

// All members are set, also on failure; to be closed.
int block_decoder_open(struct block_decoder *decoder, struct error *error);
void block_decoder_close(struct block_decoder *decoder);

// `stored` has block_stored_bytes(), `decoded` and `scratch` have as many bytes as the block says. Fills all of
// `decoded`; or -EBADMSG, or another negative errno, with a sentence. Other processes may write to `decoded` meanwhile
// (shm/block_share.h): that changes what is there, and nothing else.
int block_decode(struct block_decoder *decoder, const struct index_block *block, const uint8_t *stored,
                 uint8_t *decoded, uint8_t *scratch, struct error *error);

// The same of bytes that are encoded with a codec alone, which is not BLOCK_PARQUET.
int block_decode_bytes(struct block_decoder *decoder, uint32_t codec, const uint8_t *stored, uint64_t bytes,
                       uint8_t *decoded, uint64_t decoded_bytes, struct error *error);

#endif
