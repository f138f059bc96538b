#include "parquet/page.h"

#include <inttypes.h>
#include <string.h>

#include "parquet/thrift.h"

static uint32_t take_size(struct thrift *thrift, uint8_t type) {
    int64_t size = thrift_integer(thrift, type);
    if (size < 0 || size > INT32_MAX)
        thrift->broken = true;
    return (uint32_t)size;
}

// The part of the header that is about pages of its kind. `old` has levels' encodings where the newer has lengths.
static void read_data(struct thrift *thrift, struct parquet_page *page) {
    struct thrift_field field = {0};
    while (thrift_next(thrift, &field)) {
        if (field.id == 1)
            page->values = take_size(thrift, field.type);
        else if (field.id == 2)
            page->encoding = (int32_t)thrift_integer(thrift, field.type);
        else
            thrift_skip(thrift, field.type);
    }
}

static void read_data_2(struct thrift *thrift, struct parquet_page *page) {
    struct thrift_field field = {0};
    while (thrift_next(thrift, &field)) {
        if (field.id == 1)
            page->values = take_size(thrift, field.type);
        else if (field.id == 4)
            page->encoding = (int32_t)thrift_integer(thrift, field.type);
        else if (field.id == 5)
            page->def_bytes = take_size(thrift, field.type);
        else if (field.id == 6)
            page->rep_bytes = take_size(thrift, field.type);
        else if (field.id == 7)
            page->compressed = thrift_bool(thrift, field.type);
        else
            thrift_skip(thrift, field.type);
    }
}

static int check(const struct parquet_page *page, struct error *error) {
    const uint64_t levels = (uint64_t)page->rep_bytes + page->def_bytes;
    if (page->stored > PARQUET_MAX_PAGE || page->decoded > PARQUET_MAX_PAGE)
        return error_set(error, -EFBIG,
                         "found a page of %" PRIu32 " bytes, %" PRIu32 " when decoded, wanted at most %u",
                         page->stored, page->decoded, PARQUET_MAX_PAGE);
    if (levels > page->stored || levels > page->decoded)
        return error_set(error, -EINVAL, "found a page of %" PRIu32 " bytes whose levels have %" PRIu64,
                         page->stored, levels);
    return 1;
}

int parquet_page_read(const uint8_t *bytes, uint64_t count, struct parquet_page *page, struct error *error) {
    struct thrift thrift = {.at = bytes, .end = bytes + count};
    struct thrift_field field = {0};
    *page = (struct parquet_page){.kind = -1, .encoding = -1, .compressed = true};
    while (thrift_next(&thrift, &field)) {
        if (field.id == 1)
            page->kind = (int32_t)thrift_integer(&thrift, field.type);
        else if (field.id == 2)
            page->decoded = take_size(&thrift, field.type);
        else if (field.id == 3)
            page->stored = take_size(&thrift, field.type);
        else if ((field.id == 5 || field.id == 7) && thrift_struct(&thrift, field.type))
            read_data(&thrift, page);
        else if (field.id == 8 && thrift_struct(&thrift, field.type))
            read_data_2(&thrift, page);
        else
            thrift_skip(&thrift, field.type);
    }
    // What is cut off looks the same as what is wrong.
    if (thrift.broken)
        return 0;
    page->header = (uint32_t)(thrift.at - bytes);
    // Of no other kind are parts of the body not compressed, whatever the header says.
    if (page->kind != PARQUET_DATA_2) {
        page->rep_bytes = page->def_bytes = 0;
        page->compressed = true;
    }
    return check(page, error);
}

uint32_t parquet_level_bits(uint32_t most) {
    uint32_t bits = 0;
    for (; most; most >>= 1)
        bits++;
    return bits;
}

static int refuse_levels(struct error *error) {
    return error_set(error, -EINVAL, "found a page whose levels do not fit in it");
}

// Levels of an older page say themselves how long they are.
static int take_levels(struct parquet_body *body, uint32_t most, const uint8_t **levels, uint64_t *bytes,
                       struct error *error) {
    uint32_t length;
    if (!most)
        return 0;
    if (body->value_bytes < sizeof length)
        return refuse_levels(error);
    memcpy(&length, body->values, sizeof length);
    body->values += sizeof length;
    body->value_bytes -= sizeof length;
    if (length > body->value_bytes)
        return refuse_levels(error);
    *levels = body->values;
    *bytes = length;
    body->values += length;
    body->value_bytes -= length;
    return 0;
}

int parquet_page_split(const struct parquet_page *page, const struct parquet_levels *levels,
                       const uint8_t *bytes, struct parquet_body *body, struct error *error) {
    *body = (struct parquet_body){.values = bytes, .value_bytes = page->decoded};
    if (page->kind == PARQUET_DATA) {
        int err = take_levels(body, levels->rep, &body->rep, &body->rep_bytes, error);
        return err ? err : take_levels(body, levels->def, &body->def, &body->def_bytes, error);
    }
    if (page->kind != PARQUET_DATA_2)
        return 0;
    body->rep = bytes;
    body->rep_bytes = page->rep_bytes;
    body->def = bytes + page->rep_bytes;
    body->def_bytes = page->def_bytes;
    body->values = body->def + page->def_bytes;
    body->value_bytes = page->decoded - page->rep_bytes - page->def_bytes;
    return 0;
}
