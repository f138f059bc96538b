#include "parquet/binary.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "parquet/values.h"

#define AT_ONCE 512u

static int refuse_end(struct error *error) {
    return error_set(error, -EINVAL, "found a page with fewer values than it says");
}

// Lengths come first, so all of them are passed over once to find what follows them.
static int open_lengths(const uint8_t *bytes, uint64_t count, uint64_t all, struct delta *lengths,
                        uint64_t *used, struct error *error) {
    if (!delta_open(lengths, bytes, count) || lengths->count != all)
        return refuse_end(error);
    struct delta skipped = *lengths;
    const uint8_t *end = delta_finish(&skipped);
    if (!end)
        return refuse_end(error);
    *used = (uint64_t)(end - bytes);
    return 0;
}

static int open_prefixes(struct parquet_binary *binary, uint64_t all, struct error *error) {
    uint64_t used, more;
    int err = open_lengths(binary->bytes, binary->count, all, &binary->prefixes, &used, error);
    if (!err)
        err = open_lengths(binary->bytes + used, binary->count - used, all, &binary->lengths, &more, error);
    if (err)
        return err;
    binary->bytes += used + more;
    binary->count -= used + more;
    return 0;
}

int parquet_binary_open(struct parquet_binary *binary, int32_t encoding, uint32_t fixed, const uint8_t *bytes,
                        uint64_t count, uint64_t all, const struct parquet_spans *dictionary,
                        struct error *error) {
    *binary = (struct parquet_binary){
        .encoding = encoding, .dictionary = *dictionary, .bytes = bytes, .count = count, .fixed = fixed};
    switch (encoding) {
    case PARQUET_PLAIN:
        return 0;
    case PARQUET_PLAIN_DICTIONARY:
    case PARQUET_RLE_DICTIONARY:
        if (!dictionary->spans)
            return error_set(error, -EINVAL,
                             "found a page whose values are in a dictionary, and no dictionary");
        if (!count || bytes[0] > 32)
            return refuse_end(error);
        binary->rle = rle_open(bytes + 1, count - 1, bytes[0]);
        return 0;
    case PARQUET_DELTA_LENGTH:
        return open_lengths(bytes, count, all, &binary->lengths, &binary->at, error);
    case PARQUET_DELTA_BYTE_ARRAY:
        return open_prefixes(binary, all, error);
    default:
        return error_set(error, -ENOTSUP, "found values encoded as %s, which their type does not allow",
                         parquet_encoding_name(encoding));
    }
}

// ---- One encoding each ---------------------------------------------------------------------------------------

static int read_plain(struct parquet_binary *binary, struct parquet_span *spans, uint64_t count,
                      struct error *error) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t length = binary->fixed;
        if (!binary->fixed) {
            if (binary->count - binary->at < sizeof length)
                return refuse_end(error);
            memcpy(&length, binary->bytes + binary->at, sizeof length);
            binary->at += sizeof length;
        }
        if (length > binary->count - binary->at)
            return refuse_end(error);
        spans[i] = (struct parquet_span){binary->at, length};
        binary->at += length;
    }
    return 0;
}

static int read_indices(struct parquet_binary *binary, struct parquet_span *spans, uint64_t count,
                        struct error *error) {
    uint32_t indices[AT_ONCE];
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        const uint64_t some = min_u64(count - done, AT_ONCE);
        if (rle_read(&binary->rle, indices, some) < some)
            return refuse_end(error);
        for (uint64_t i = 0; i < some; i++) {
            if (indices[i] >= binary->dictionary.count)
                return error_set(error, -EINVAL, "found value %" PRIu32 " of a dictionary that has %" PRIu32,
                                 indices[i], binary->dictionary.count);
            spans[done + i] = binary->dictionary.spans[indices[i]];
        }
    }
    return 0;
}

static int read_lengths(struct parquet_binary *binary, struct parquet_span *spans, uint64_t count,
                        struct error *error) {
    uint64_t lengths[AT_ONCE];
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        const uint64_t some = min_u64(count - done, AT_ONCE);
        if (delta_read(&binary->lengths, lengths, some) < some)
            return refuse_end(error);
        for (uint64_t i = 0; i < some; i++) {
            if (lengths[i] > binary->count - binary->at || lengths[i] > INT32_MAX)
                return refuse_end(error);
            spans[done + i] = (struct parquet_span){binary->at, (uint32_t)lengths[i]};
            binary->at += lengths[i];
        }
    }
    return 0;
}

// What a value takes of the bytes, and what it repeats of the one before it, must be there.
static int read_prefixed(struct parquet_binary *binary, struct parquet_span *spans, uint64_t count,
                         struct error *error) {
    uint64_t prefixes[AT_ONCE], lengths[AT_ONCE];
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        const uint64_t some = min_u64(count - done, AT_ONCE);
        if (delta_read(&binary->prefixes, prefixes, some) < some ||
            delta_read(&binary->lengths, lengths, some) < some)
            return refuse_end(error);
        for (uint64_t i = 0; i < some; i++) {
            if (prefixes[i] > binary->before || lengths[i] > binary->count - (binary->at - binary->shared) ||
                prefixes[i] + lengths[i] > INT32_MAX)
                return refuse_end(error);
            binary->before = prefixes[i] + lengths[i];
            spans[done + i] = (struct parquet_span){binary->at, (uint32_t)binary->before};
            binary->at += binary->before;
            binary->shared += prefixes[i];
        }
    }
    return 0;
}

int parquet_binary_read(struct parquet_binary *binary, struct parquet_span *spans, uint64_t count,
                        struct error *error) {
    switch (binary->encoding) {
    case PARQUET_PLAIN:
        return read_plain(binary, spans, count, error);
    case PARQUET_DELTA_LENGTH:
        return read_lengths(binary, spans, count, error);
    case PARQUET_DELTA_BYTE_ARRAY:
        return read_prefixed(binary, spans, count, error);
    default:
        return read_indices(binary, spans, count, error);
    }
}

// ---- Values that share prefixes ------------------------------------------------------------------------------

int parquet_binary_join(const uint8_t *bytes, uint64_t count, uint64_t values, uint8_t *to, uint64_t room,
                        struct error *error) {
    const struct parquet_spans none = {0};
    struct parquet_binary binary;
    int err = parquet_binary_open(&binary, PARQUET_DELTA_BYTE_ARRAY, 0, bytes, count, values, &none, error);
    uint64_t before = 0;
    for (uint64_t i = 0; i < values && !err; i++) {
        struct parquet_span span;
        const uint64_t shared = binary.shared;
        err = parquet_binary_read(&binary, &span, 1, error);
        if (err)
            return err;
        if (span.bytes > room - span.offset)
            return refuse_end(error);
        const uint64_t prefix = binary.shared - shared;
        // Own bytes lie where those of all values before end: their lengths without what they share.
        if (prefix)
            memcpy(to + span.offset, to + before, prefix);
        if (span.bytes > prefix)
            memcpy(to + span.offset + prefix, binary.bytes + (span.offset - shared), span.bytes - prefix);
        before = span.offset;
    }
    if (!err && binary.at != room)
        return error_set(error, -EINVAL, "found a page whose values have %" PRIu64 " bytes, wanted %" PRIu64,
                         binary.at, room);
    return err;
}
