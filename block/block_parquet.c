#include "block/block_parquet.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "parquet/binary.h"
#include "parquet/footer.h"
#include "parquet/values.h"

struct decoding {
    struct block_decoder *decoder;
    const struct index_block *block;
    struct parquet_type type;
    struct parquet_levels levels;
    struct parquet_dictionary dictionary;
    uint8_t *scratch, *to;
    uint64_t scratch_left, to_left;
};

// The body of a page as it is when decoded: in the block itself, or in scratch memory.
static int decode_body(struct decoding *decoding, const struct parquet_page *page, const uint8_t *stored,
                       const uint8_t **body, struct error *error) {
    const uint32_t codec = decoding->block->parameters[BLOCK_PARQUET_CODEC];
    const uint32_t levels = page->rep_bytes + page->def_bytes;
    *body = stored;
    if (codec == BLOCK_PLAIN || !page->compressed) {
        if (page->stored == page->decoded)
            return 0;
        return error_set(error, -EBADMSG, "its block has a page of %" PRIu32 " bytes, wanted %" PRIu32,
                         page->stored, page->decoded);
    }
    if (page->decoded > decoding->scratch_left)
        return error_set(error, -EBADMSG,
                         "its block has a page of %" PRIu32 " bytes when decoded, wanted %" PRIu64,
                         page->decoded, decoding->scratch_left);
    *body = decoding->scratch;
    if (levels)
        memcpy(decoding->scratch, stored, levels);
    if (page->decoded == levels)
        return 0;
    return block_decode_bytes(decoding->decoder, codec, stored + levels, page->stored - levels,
                              decoding->scratch + levels, page->decoded - levels, error);
}

// The dictionary stays in scratch memory; other pages come after it.
static int take_dictionary(struct decoding *decoding, const struct parquet_page *page, const uint8_t *body,
                           struct error *error) {
    if (decoding->dictionary.values || !decoding->type.stored ||
        page->values > page->decoded / decoding->type.stored)
        return error_set(error, -EBADMSG, "its block has a dictionary that does not fit");
    decoding->dictionary = (struct parquet_dictionary){body, page->values};
    if (body == decoding->scratch) {
        decoding->scratch += page->decoded;
        decoding->scratch_left -= page->decoded;
    }
    return 0;
}

static int count_values(const struct decoding *decoding, const struct parquet_page *page,
                        const struct parquet_body *body, uint64_t *count, struct error *error) {
    const uint32_t most = decoding->levels.def;
    struct rle rle = rle_open(body->def, body->def_bytes, parquet_level_bits(most));
    *count = most ? 0 : page->values;
    if (most && !rle_count(&rle, page->values, most, count))
        return error_set(error, -EBADMSG, "its block has a page with fewer levels than it says");
    return 0;
}

static int join_values(struct decoding *decoding, const struct parquet_body *body, uint64_t count,
                       struct error *error) {
    int err =
        parquet_binary_join(body->values, body->value_bytes, count, decoding->to, decoding->to_left, error);
    decoding->to += decoding->to_left; // there is one page
    decoding->to_left = 0;
    return err;
}

static int refuse_type(struct error *error) {
    return error_set(error, -EBADMSG, "its block has values of an unknown type");
}

static int take_values(struct decoding *decoding, const struct parquet_page *page, const uint8_t *bytes,
                       struct error *error) {
    const struct parquet_type *type = &decoding->type;
    struct parquet_values values;
    struct parquet_body body;
    uint64_t count = 0;
    int err = parquet_page_split(page, &decoding->levels, bytes, &body, error);
    if (!err)
        err = count_values(decoding, page, &body, &count, error);
    if (err || !count)
        return err;
    if (!type->bytes)
        return page->encoding == PARQUET_DELTA_BYTE_ARRAY ? join_values(decoding, &body, count, error)
                                                          : refuse_type(error);
    if (count > decoding->to_left / type->bytes)
        return error_set(error, -EBADMSG, "its block has more values than %" PRIu64,
                         decoding->block->decoded / type->bytes);
    err = parquet_values_open(&values, type, page->encoding, body.values, body.value_bytes, count,
                              &decoding->dictionary, error);
    if (!err)
        err = parquet_values_read(&values, decoding->to, count, error);
    decoding->to += count * type->bytes;
    decoding->to_left -= count * type->bytes;
    return err;
}

static int take_page(struct decoding *decoding, const struct parquet_page *page, const uint8_t *stored,
                     struct error *error) {
    const uint8_t *body;
    if (page->kind != PARQUET_DICTIONARY && page->kind != PARQUET_DATA && page->kind != PARQUET_DATA_2)
        return 0;
    int err = decode_body(decoding, page, stored, &body, error);
    if (err)
        return err;
    return page->kind == PARQUET_DICTIONARY ? take_dictionary(decoding, page, body, error)
                                            : take_values(decoding, page, body, error);
}

// What a kept index says may be a lie.
static bool type_is_sound(const struct parquet_type *type) {
    static const uint8_t sizes[] = {0, 4, 8, 12, 4, 8, 0};
    if (!type->bytes || !type->stored)
        return type->bytes == 0 || (type->physical == PARQUET_BOOLEAN && type->bytes == 1);
    if (type->physical != PARQUET_FIXED &&
        (type->physical >= COUNT_OF(sizes) || type->stored != sizes[type->physical]))
        return false;
    return type->bytes <= type->stored;
}

int block_parquet_decode(struct block_decoder *decoder, const struct index_block *block,
                         const uint8_t *stored, uint8_t *decoded, uint8_t *scratch, struct error *error) {
    const uint32_t *parameters = block->parameters;
    struct decoding decoding = {
        .decoder = decoder,
        .block = block,
        .type = {parameters[BLOCK_PARQUET_PHYSICAL], parameters[BLOCK_PARQUET_STORED],
                 parameters[BLOCK_PARQUET_BYTES]},
        .levels = {parameters[BLOCK_PARQUET_LEVELS] & 0xffff, parameters[BLOCK_PARQUET_LEVELS] >> 16},
        .scratch = scratch,
        .to = decoded,
        .scratch_left = block->scratch,
        .to_left = block->decoded};
    uint64_t left = block_stored_bytes(block);
    int err = type_is_sound(&decoding.type) ? 0 : refuse_type(error);
    while (left && !err) {
        struct parquet_page page;
        int got = parquet_page_read(stored, left, &page, error);
        if (got < 0)
            return got;
        if (!got || page.stored > left - page.header)
            return error_set(error, -EBADMSG, "its block has a page that is damaged");
        err = take_page(&decoding, &page, stored + page.header, error);
        stored += page.header + page.stored;
        left -= page.header + page.stored;
    }
    if (!err && decoding.to_left)
        return error_set(error, -EBADMSG, "its block lacks %" PRIu64 " bytes of its values",
                         decoding.to_left);
    return err;
}
