#include "block/block_snappy.h"

#include <inttypes.h>
#include <string.h>

// A literal or a copy of what was decoded before.
struct piece {
    uint32_t length;
    uint32_t distance; // back to where a copy is from; 0: a literal
};

static int refuse(const char *what, struct error *error) {
    return error_set(error, -EBADMSG, "its block cannot be decoded with snappy: %s", what);
}

static uint32_t little_endian(const uint8_t *bytes, uint32_t count) {
    uint32_t value = 0;
    for (uint32_t i = 0; i < count; i++)
        value |= (uint32_t)bytes[i] << 8 * i;
    return value;
}

// The bytes that the piece's description takes; 0: it is cut off. A literal's length does not fit if it is 2^32.
static uint32_t take_piece(const uint8_t *at, uint64_t there, struct piece *piece) {
    static const uint8_t sizes[4] = {1, 2, 3, 5}; // of copies
    const uint8_t tag = at[0];
    if (tag & 3) {
        const uint32_t size = sizes[tag & 3];
        if (there < size)
            return 0;
        if ((tag & 3) == 1)
            *piece = (struct piece){(tag >> 2 & 7) + 4u, (uint32_t)(tag >> 5) << 8 | at[1]};
        else
            *piece = (struct piece){(tag >> 2) + 1u, little_endian(at + 1, size - 1)};
        return size;
    }
    const uint32_t more = tag >> 2 < 60 ? 0 : (tag >> 2) - 59u;
    if (there < 1 + more)
        return 0;
    *piece = (struct piece){(more ? little_endian(at + 1, more) : tag >> 2) + 1u, 0};
    return 1 + more;
}

// Where source and destination overlap, bytes repeat. `slack`: bytes behind the copy that may be written to.
static void copy(uint8_t *to, uint32_t distance, uint32_t length, uint64_t slack) {
    const uint8_t *from = to - distance;
    if (distance >= 16 && slack >= 16) {
        for (uint32_t i = 0; i < length; i += 16)
            memcpy(to + i, from + i, 16);
    } else if (distance >= length) {
        memcpy(to, from, length);
    } else {
        for (uint32_t i = 0; i < length; i++)
            to[i] = from[i];
    }
}

static int read_length(const uint8_t *stored, uint64_t stored_bytes, uint64_t *used, uint64_t *length,
                       struct error *error) {
    *length = *used = 0;
    for (uint32_t shift = 0; shift < 35 && *used < stored_bytes; shift += 7) {
        uint8_t byte = stored[(*used)++];
        *length |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return 0;
    }
    return refuse("found no length", error);
}

int block_snappy_decode(const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded,
                        uint64_t decoded_bytes, struct error *error) {
    uint64_t at, length, made = 0;
    int err = read_length(stored, stored_bytes, &at, &length, error);
    if (err)
        return err;
    if (length != decoded_bytes)
        return error_set(error, -EBADMSG,
                         "its block has %" PRIu64 " bytes when decoded with snappy, wanted %" PRIu64, length,
                         decoded_bytes);
    while (at < stored_bytes) {
        struct piece piece;
        const uint32_t size = take_piece(stored + at, stored_bytes - at, &piece);
        at += size;
        if (!size || piece.length > decoded_bytes - made || piece.length == 0)
            return refuse("found a piece that does not fit", error);
        if (piece.distance) {
            if (piece.distance > made)
                return refuse("found a copy from before the start", error);
            copy(decoded + made, piece.distance, piece.length, decoded_bytes - made - piece.length);
        } else {
            if ((stored[at - size] & 3) || piece.length > stored_bytes - at)
                return refuse("found a piece that does not fit", error);
            memcpy(decoded + made, stored + at, piece.length);
            at += piece.length;
        }
        made += piece.length;
    }
    return made == decoded_bytes ? 0 : refuse("found the end too early", error);
}
