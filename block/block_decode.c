#include "block/block_decode.h"

#include "block/block_gzip.h"
#include "block/block_lz4.h"
#include "block/block_lz4_raw.h"
#include "block/block_parquet.h"
#include "block/block_snappy.h"
#include "block/block_zstd.h"

int block_decoder_open(struct block_decoder *decoder, struct error *error) {
    *decoder = (struct block_decoder){.lz4 = block_lz4_open(), .zstd = block_zstd_open()};
    return decoder->lz4 && decoder->zstd ? 0 : error_set(error, -ENOMEM, "no memory to decode blocks");
}

void block_decoder_close(struct block_decoder *decoder) {
    block_lz4_close(decoder->lz4);
    block_zstd_close(decoder->zstd);
    *decoder = (struct block_decoder){0};
}

int block_decode_bytes(struct block_decoder *decoder, uint32_t codec, const uint8_t *stored, uint64_t bytes,
                       uint8_t *decoded, uint64_t decoded_bytes, struct error *error) {
    switch (codec) {
    case BLOCK_LZ4_FRAME:
        return block_lz4_decode(decoder->lz4, stored, bytes, decoded, decoded_bytes, error);
    case BLOCK_ZSTD:
        return block_zstd_decode(decoder->zstd, stored, bytes, decoded, decoded_bytes, error);
    case BLOCK_SNAPPY:
        return block_snappy_decode(stored, bytes, decoded, decoded_bytes, error);
    case BLOCK_LZ4_RAW:
        return block_lz4_raw_decode(stored, bytes, decoded, decoded_bytes, error);
    case BLOCK_GZIP:
        return block_gzip_decode(stored, bytes, decoded, decoded_bytes, error);
    default:
        return error_set(error, -EBADMSG, "its block has an unknown codec: %u", codec);
    }
}

int block_decode(struct block_decoder *decoder, const struct index_block *block, const uint8_t *stored,
                 uint8_t *decoded, uint8_t *scratch, struct error *error) {
    if (block->codec == BLOCK_PARQUET)
        return block_parquet_decode(decoder, block, stored, decoded, scratch, error);
    return block_decode_bytes(decoder, block->codec, stored, block_stored_bytes(block), decoded,
                              block->decoded, error);
}
