#include "block/block_lz4_raw.h"

#include <inttypes.h>
#include <limits.h>
#include <lz4.h>

int block_lz4_raw_decode(const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded,
                         uint64_t decoded_bytes, struct error *error) {
    if (stored_bytes > INT_MAX || decoded_bytes > INT_MAX)
        return error_set(error, -EBADMSG, "its block is too large for lz4");
    int made =
        LZ4_decompress_safe((const char *)stored, (char *)decoded, (int)stored_bytes, (int)decoded_bytes);
    if (made < 0)
        return error_set(error, -EBADMSG, "its block cannot be decoded with lz4");
    if ((uint64_t)made == decoded_bytes)
        return 0;
    return error_set(error, -EBADMSG, "its block has %d bytes when decoded with lz4, wanted %" PRIu64, made,
                     decoded_bytes);
}
