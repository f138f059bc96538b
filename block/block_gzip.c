#include "block/block_gzip.h"

#include <inttypes.h>
#include <limits.h>
#include <zlib.h>

#define ANY_HEADER 32 // zlib's own, or gzip's

int block_gzip_decode(const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded, uint64_t decoded_bytes,
                      struct error *error) {
    if (stored_bytes > UINT_MAX || decoded_bytes > UINT_MAX)
        return error_set(error, -EBADMSG, "its block is too large for gzip");
    z_stream stream = {.next_in = (Bytef *)stored,
                       .avail_in = (uInt)stored_bytes,
                       .next_out = decoded,
                       .avail_out = (uInt)decoded_bytes};
    int result = inflateInit2(&stream, MAX_WBITS + ANY_HEADER);
    if (result != Z_OK)
        return error_set(error, -ENOMEM, "no memory to decode blocks");
    // Readers of Parquet have to know pages of several members of gzip.
    do
        result = inflate(&stream, Z_FINISH);
    while (result == Z_STREAM_END && stream.avail_in && stream.avail_out && inflateReset(&stream) == Z_OK);
    const uint64_t made = decoded_bytes - stream.avail_out;
    inflateEnd(&stream);
    if (result == Z_STREAM_END && made == decoded_bytes)
        return 0;
    if (result == Z_STREAM_END || (result == Z_BUF_ERROR && made == decoded_bytes))
        return error_set(error, -EBADMSG,
                         "its block has %s%" PRIu64 " bytes when decoded with gzip, wanted %" PRIu64,
                         result == Z_STREAM_END ? "" : "more than ", made, decoded_bytes);
    return error_set(error, -EBADMSG,
                     "its block cannot be decoded with gzip: found damage after %" PRIu64 " bytes", made);
}
