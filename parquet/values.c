#include "parquet/values.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "parquet/footer.h"

#define AT_ONCE 1024u

const char *parquet_encoding_name(int32_t encoding) {
    static const char *const names[] = {
        "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
        "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
        "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
    return encoding >= 0 && encoding < (int32_t)COUNT_OF(names) ? names[encoding] : "an unknown encoding";
}

static int refuse_end(struct error *error) {
    return error_set(error, -EINVAL, "found a page with fewer values than it says");
}

// ---- The beginning -------------------------------------------------------------------------------------------

static int open_indices(struct parquet_values *values, struct error *error) {
    if (!values->dictionary.values)
        return error_set(error, -EINVAL, "found a page whose values are in a dictionary, and no dictionary");
    if (!values->count || values->bytes[0] > 32)
        return refuse_end(error);
    values->rle = rle_open(values->bytes + 1, values->count - 1, values->bytes[0]);
    return 0;
}

static int open_booleans(struct parquet_values *values, struct error *error) {
    uint32_t length;
    if (values->count < sizeof length)
        return refuse_end(error);
    memcpy(&length, values->bytes, sizeof length);
    values->rle = rle_open(values->bytes + sizeof length, min_u64(length, values->count - sizeof length), 1);
    return 0;
}

static bool is_integer(const struct parquet_type *type) {
    return type->physical == PARQUET_INT32 || type->physical == PARQUET_INT64;
}

int parquet_values_open(struct parquet_values *values, const struct parquet_type *type, int32_t encoding,
                        const uint8_t *bytes, uint64_t count, uint64_t all,
                        const struct parquet_dictionary *dictionary, struct error *error) {
    *values = (struct parquet_values){.type = *type,
                                      .dictionary = *dictionary,
                                      .encoding = (uint32_t)encoding,
                                      .bytes = bytes,
                                      .count = count,
                                      .all = all};
    if (encoding == PARQUET_PLAIN)
        return 0;
    if (encoding == PARQUET_PLAIN_DICTIONARY || encoding == PARQUET_RLE_DICTIONARY)
        return type->stored ? open_indices(values, error) : refuse_end(error);
    if (encoding == PARQUET_BYTE_STREAM_SPLIT && type->stored)
        return all <= count / type->stored ? 0 : refuse_end(error);
    if (encoding == PARQUET_RLE && !type->stored)
        return open_booleans(values, error);
    if (encoding == PARQUET_DELTA_BINARY_PACKED && is_integer(type))
        return delta_open(&values->delta, bytes, count) ? 0 : refuse_end(error);
    return error_set(error, -ENOTSUP, "found values encoded as %s, which their type does not allow",
                     parquet_encoding_name(encoding));
}

// ---- Values --------------------------------------------------------------------------------------------------

// From values that lie end to end.
static void narrow(const struct parquet_type *type, const uint8_t *from, uint8_t *to, uint64_t count) {
    if (type->bytes == type->stored) {
        memcpy(to, from, count * type->bytes);
        return;
    }
    for (uint64_t i = 0; i < count; i++, from += type->stored, to += type->bytes)
        memcpy(to, from, type->bytes);
}

static int read_plain(struct parquet_values *values, uint8_t *to, uint64_t count, struct error *error) {
    const struct parquet_type *type = &values->type;
    const uint64_t there = type->stored ? values->count / type->stored : values->count * 8;
    if (values->next > there || count > there - values->next)
        return refuse_end(error);
    if (type->stored)
        narrow(type, values->bytes + values->next * type->stored, to, count);
    else
        for (uint64_t i = 0, bit = values->next; i < count; i++, bit++)
            to[i] = values->bytes[bit / 8] >> bit % 8 & 1;
    return 0;
}

// Sizes that are known when this is compiled are copied in one instruction.
#define PICK(size)                                                                                           \
    for (uint64_t i = 0; i < count; i++)                                                                     \
    memcpy(to + i * (size), from + indices[i] * stored, (size))

static void pick(const struct parquet_values *values, const uint32_t *indices, uint8_t *to, uint64_t count) {
    const uint8_t *from = values->dictionary.values;
    const uint64_t stored = values->type.stored;
    switch (values->type.bytes) {
    case 4:
        PICK(4);
        break;
    case 8:
        PICK(8);
        break;
    default:
        PICK(values->type.bytes);
    }
}

static int read_indices(struct parquet_values *values, uint8_t *to, uint64_t count, struct error *error) {
    uint32_t indices[AT_ONCE];
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        const uint64_t some = min_u64(count - done, AT_ONCE);
        uint32_t largest = 0;
        if (rle_read(&values->rle, indices, some) < some)
            return refuse_end(error);
        for (uint64_t i = 0; i < some; i++)
            largest = indices[i] > largest ? indices[i] : largest;
        if (largest >= values->dictionary.count)
            return error_set(error, -EINVAL, "found value %" PRIu32 " of a dictionary that has %" PRIu32,
                             largest, values->dictionary.count);
        pick(values, indices, to + done * values->type.bytes, some);
    }
    return 0;
}

static int read_booleans(struct parquet_values *values, uint8_t *to, uint64_t count, struct error *error) {
    uint32_t bits[AT_ONCE];
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        const uint64_t some = min_u64(count - done, AT_ONCE);
        if (rle_read(&values->rle, bits, some) < some)
            return refuse_end(error);
        for (uint64_t i = 0; i < some; i++)
            to[done + i] = bits[i] & 1;
    }
    return 0;
}

static int read_delta(struct parquet_values *values, uint8_t *to, uint64_t count, struct error *error) {
    uint64_t words[AT_ONCE];
    const uint32_t bytes = values->type.bytes;
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        const uint64_t some = min_u64(count - done, AT_ONCE);
        if (delta_read(&values->delta, words, some) < some)
            return refuse_end(error);
        for (uint64_t i = 0; i < some; i++)
            memcpy(to + (done + i) * bytes, &words[i], bytes);
    }
    return 0;
}

// The first bytes of all values, then the second ones, and so on.
static void read_split(const struct parquet_values *values, uint8_t *to, uint64_t count) {
    const uint32_t bytes = values->type.bytes;
    for (uint32_t k = 0; k < bytes; k++) {
        const uint8_t *from = values->bytes + k * values->all + values->next;
        for (uint64_t i = 0; i < count; i++)
            to[i * bytes + k] = from[i];
    }
}

int parquet_values_read(struct parquet_values *values, uint8_t *to, uint64_t count, struct error *error) {
    int err = 0;
    if (count > values->all - values->next)
        return refuse_end(error);
    switch (values->encoding) {
    case PARQUET_PLAIN:
        err = read_plain(values, to, count, error);
        break;
    case PARQUET_RLE:
        err = read_booleans(values, to, count, error);
        break;
    case PARQUET_DELTA_BINARY_PACKED:
        err = read_delta(values, to, count, error);
        break;
    case PARQUET_BYTE_STREAM_SPLIT:
        read_split(values, to, count);
        break;
    default:
        err = read_indices(values, to, count, error);
    }
    values->next += count;
    return err;
}
