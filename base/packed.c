#include "base/packed.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#define XXH_INLINE_ALL // so that libfeed's users need not link libxxhash
#include <xxhash.h>

#include "base/dtype.h"
#include "base/names.h"
#include "base/sizes.h"

_Static_assert(sizeof(struct packed_field) == 112, "the layout is that of files");
_Static_assert(sizeof(struct packed_header) == PACKED_PAGE, "the header is one page");
_Static_assert(offsetof(struct packed_header, header_hash) == PACKED_PAGE - 8, "the hash is at its end");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie in memory");

bool packed_is_ragged(const struct packed_header *header) {
    for (uint32_t i = 0; i < header->field_count; i++)
        if (header->fields[i].ragged)
            return true;
    return false;
}

uint64_t packed_field_bytes(const struct packed_field *field) {
    uint64_t bytes = dtype_bytes(field->dtype);
    for (uint32_t i = 0; i < field->dimensions; i++)
        if (__builtin_mul_overflow(bytes, field->shape[i], &bytes))
            return 0;
    return bytes <= PACKED_SAMPLE_BYTES ? bytes : 0;
}

enum packed_place packed_place(const struct packed_header *header, uint32_t field) {
    if (header->fields[field].ragged)
        return PACKED_SIZED;
    bool small = packed_field_bytes(&header->fields[field]) <= PACKED_VALUE_BYTES;
    return small && packed_is_ragged(header) ? PACKED_IN_TABLE : PACKED_IN_SAMPLE;
}

uint64_t packed_fixed_bytes(const struct packed_header *header) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < header->field_count; i++)
        if (packed_place(header, i) == PACKED_IN_SAMPLE)
            bytes += packed_field_bytes(&header->fields[i]);
    return bytes;
}

uint64_t packed_entry_bytes(const struct packed_header *header, uint32_t field) {
    switch (packed_place(header, field)) {
    case PACKED_SIZED:
        return sizeof(uint32_t);
    case PACKED_IN_TABLE:
        return packed_field_bytes(&header->fields[field]);
    case PACKED_IN_SAMPLE:
        break;
    }
    return 0;
}

uint64_t packed_column(const struct packed_header *header, uint32_t field) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < field; i++)
        at += align_up(header->samples * packed_entry_bytes(header, i), 8);
    return at;
}

uint64_t packed_hash(const struct packed_header *header) {
    return XXH3_64bits(header, offsetof(struct packed_header, header_hash));
}

static bool is_zero(const void *bytes, size_t count) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < count; i++)
        if (at[i])
            return false;
    return true;
}

static int check_field(const struct packed_header *header, uint32_t number, struct error *error) {
    const struct packed_field *field = &header->fields[number];
    size_t length = strnlen(field->name, sizeof field->name);
    if (length == 0 || length == sizeof field->name || !name_is_valid(field->name) ||
        !is_zero(field->name + length, sizeof field->name - length))
        return error_set(error, -EINVAL, "found a name that no field can have, for field %" PRIu32, number);
    for (uint32_t i = 0; i < number; i++)
        if (strcmp(field->name, header->fields[i].name) == 0)
            return error_set(error, -EINVAL, "found two fields with the name %s", field->name);
    if (!dtype_bytes(field->dtype) || field->dimensions > PACKED_MAX_DIMS || field->ragged > 1 ||
        field->reserved ||
        !is_zero(field->shape + field->dimensions,
                 (PACKED_MAX_DIMS - field->dimensions) * sizeof field->shape[0]))
        return error_set(error, -EINVAL, "found a type that no field can have, for field %s", field->name);
    if (field->ragged ? field->dimensions != 1 || field->shape[0] : packed_field_bytes(field) == 0)
        return error_set(
            error, -EINVAL,
            "found a shape that no field can have, for field %s; a sample has from 1 byte to 1 GiB",
            field->name);
    return 0;
}

static int check_fields(const struct packed_header *header, struct error *error) {
    if (header->field_count == 0 || header->field_count > PACKED_MAX_FIELDS)
        return error_set(error, -EINVAL, "found %" PRIu32 " fields, wanted 1 to %u", header->field_count,
                         PACKED_MAX_FIELDS);
    int err = 0;
    for (uint32_t i = 0; i < header->field_count && !err; i++)
        err = check_field(header, i, error);
    if (!err && !is_zero(&header->fields[header->field_count],
                         (PACKED_MAX_FIELDS - header->field_count) * sizeof header->fields[0]))
        err = error_set(error, -EINVAL, "found data after its %" PRIu32 " fields", header->field_count);
    return err;
}

// The samples, the table and the file's end are where they belong.
static int check_places(const struct packed_header *header, uint64_t file_bytes, struct error *error) {
    const bool ragged = packed_is_ragged(header);
    const uint64_t each = align_up(packed_fixed_bytes(header), header->alignment);
    const uint64_t most = ragged ? PACKED_SAMPLES : INT64_MAX / each;
    if (header->samples == 0 || header->samples > most)
        return error_set(error, -EINVAL, "found %" PRIu64 " samples, wanted 1 to %" PRIu64, header->samples,
                         most);
    if (header->table_offset < PACKED_PAGE || header->table_offset > file_bytes ||
        header->table_bytes != packed_column(header, header->field_count) ||
        header->table_bytes != file_bytes - header->table_offset)
        return error_set(error, -EINVAL,
                         "found %" PRIu64 " bytes, wanted a table of %" PRIu64 " at offset %" PRIu64
                         " and nothing after it; the file has been cut, or something was added to it",
                         file_bytes, packed_column(header, header->field_count), header->table_offset);
    if (!ragged && header->table_offset - PACKED_PAGE != header->samples * each)
        return error_set(error, -EINVAL,
                         "found room for %" PRIu64 " bytes of samples, wanted %" PRIu64
                         " samples of %" PRIu64,
                         header->table_offset - PACKED_PAGE, header->samples, each);
    return 0;
}

int packed_check(const struct packed_header *header, uint64_t file_bytes, struct error *error) {
    if (header->magic != PACKED_MAGIC)
        return error_set(error, -EINVAL, "found another kind of file, wanted a shard made by feedctl pack");
    if (header->version != PACKED_VERSION)
        return error_set(error, -EINVAL, "found version %" PRIu32 " of packed shards, wanted %u",
                         header->version, PACKED_VERSION);
    if (header->header_hash != packed_hash(header))
        return error_set(error, -EINVAL, "found a damaged header: its hash differs; pack the dataset again");
    if (header->reserved || !is_zero(header->reserved2, sizeof header->reserved2) || header->last > 1 ||
        header->first_position > header->end_position ||
        header->samples > header->end_position - header->first_position)
        return error_set(error, -EINVAL, "found a header that contradicts itself");
    if (!is_power_of_two(header->alignment) || header->alignment > PACKED_MAX_ALIGNMENT)
        return error_set(error, -EINVAL,
                         "found samples aligned to %" PRIu32 ", wanted a power of two up to %u",
                         header->alignment, PACKED_MAX_ALIGNMENT);
    int err = check_fields(header, error);
    return err ? err : check_places(header, file_bytes, error);
}
