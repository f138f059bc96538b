#include "block/block_stream.h"

#include "block/block_lz4.h"
#include "block/block_zstd.h"

struct block_stream {
    void *lz4, *zstd; // one of them
};

int block_stream_open(struct block_stream **out, enum block_codec codec, struct error *error) {
    struct block_stream *stream = *out = calloc(1, sizeof *stream);
    if (stream && codec == BLOCK_LZ4_FRAME)
        stream->lz4 = block_lz4_open();
    else if (stream)
        stream->zstd = block_zstd_open();
    if (stream && (stream->lz4 || stream->zstd))
        return 0;
    block_stream_close(stream);
    *out = NULL;
    return error_set(error, -ENOMEM, "no memory to decode blocks");
}

void block_stream_close(struct block_stream *stream) {
    if (!stream)
        return;
    block_lz4_close(stream->lz4);
    block_zstd_close(stream->zstd);
    free(stream);
}

void block_stream_restart(struct block_stream *stream) {
    if (stream->lz4)
        block_lz4_restart(stream->lz4);
    else
        block_zstd_restart(stream->zstd);
}

int block_stream_decode(struct block_stream *stream, const uint8_t *stored, size_t *stored_bytes,
                        uint8_t *decoded, size_t *decoded_bytes, struct error *error) {
    if (stream->lz4)
        return block_lz4_some(stream->lz4, stored, stored_bytes, decoded, decoded_bytes, error);
    return block_zstd_some(stream->zstd, stored, stored_bytes, decoded, decoded_bytes, error);
}
