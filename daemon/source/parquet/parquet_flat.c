#include "daemon/source/parquet/parquet_flat.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "block/block_parquet.h"

#define VALUE_BYTES 8u // at most, of a number

// ---- Dictionaries --------------------------------------------------------------------------------------------

static int refuse_dictionary(struct error *error) {
    return error_set(error, -EINVAL, "found a dictionary that does not fit in its page");
}

// Where the values of the dictionary lie in its block, of which they are all.
static int take_spans(struct parquet_part *part, const struct parquet_pages *pages, struct error *error) {
    const struct parquet_spans none = {0};
    const uint32_t count = pages->page.values, fixed = part->column->fixed;
    struct parquet_binary binary;
    if (count > pages->body.value_bytes / (fixed ? fixed : sizeof(uint32_t)))
        return refuse_dictionary(error);
    struct parquet_span *spans = calloc(max_u64(count, 1), sizeof *spans);
    if (!spans)
        return error_set(error, -ENOMEM, "out of memory");
    part->spans = (struct parquet_spans){spans, count};
    int err = parquet_binary_open(&binary, PARQUET_PLAIN, fixed, pages->body.values, pages->body.value_bytes,
                                  count, &none, error);
    if (!err)
        err = parquet_binary_read(&binary, spans, count, error);
    parquet_pages_block(pages, &part->dictionary_block);
    return err;
}

static int take_dictionary(struct parquet_part *part, struct parquet_pages *pages, struct error *error) {
    const int32_t encoding = pages->page.encoding;
    const uint32_t stored = part->column->type.stored;
    if (part->dictionary || part->spans.spans || part->row)
        return error_set(error, -EINVAL, "found a second dictionary");
    if (encoding != PARQUET_PLAIN && encoding != PARQUET_PLAIN_DICTIONARY)
        return error_set(error, -ENOTSUP, "found a dictionary encoded as %s, wanted PLAIN",
                         parquet_encoding_name(encoding));
    if (part->column->binary)
        return take_spans(part, pages, error);
    if (!stored || pages->page.values > pages->body.value_bytes / stored)
        return refuse_dictionary(error);
    part->values = (struct parquet_dictionary){pages->body.values, pages->page.values};
    part->dictionary = parquet_pages_take(pages);
    return 0;
}

// ---- Numbers -------------------------------------------------------------------------------------------------

static int put_values(struct parquet_part *part, const struct parquet_pages *pages, struct error *error) {
    const struct parquet_type *type = &part->column->type;
    const size_t row_bytes = part->rows->fields->row_bytes;
    uint8_t some[PARQUET_WINDOW * VALUE_BYTES];
    struct parquet_values values;
    int err = parquet_values_open(&values, type, pages->page.encoding, pages->body.values,
                                  pages->body.value_bytes, pages->page.values, &part->values, error);
    for (uint64_t left = pages->page.values; left && !err;) {
        const uint64_t count = min_u64(left, PARQUET_WINDOW);
        err = parquet_values_read(&values, some, count, error);
        for (uint64_t i = 0; i < count && !err; i++, part->entry += row_bytes)
            memcpy(part->entry, some + i * type->bytes, type->bytes);
        part->row += count;
        left -= count;
    }
    return err;
}

// ---- Bytes ---------------------------------------------------------------------------------------------------

// What the spans of a page are in.
struct target {
    uint32_t block;
    uint64_t offset; // to be added to a span's
};

static int put_length(struct parquet_part *part, uint64_t length) {
    memcpy(part->entry, &length, sizeof length);
    part->entry += part->rows->fields->row_bytes;
    part->row++;
    return 0;
}

static int put_spans(struct parquet_part *part, struct parquet_binary *binary, uint64_t count,
                     const struct target *target, struct error *error) {
    struct parquet_span spans[PARQUET_WINDOW];
    const uint32_t fixed = part->column->fixed;
    int err = 0;
    while (count && !err) {
        const uint64_t some = min_u64(count, PARQUET_WINDOW);
        err = parquet_binary_read(binary, spans, some, error);
        for (uint64_t i = 0; i < some && !err; i++) {
            if (fixed && spans[i].bytes != fixed)
                return error_set(error, -EINVAL,
                                 "found %" PRIu32 " bytes in row %" PRIu64 ", wanted %" PRIu32,
                                 spans[i].bytes, part->row, fixed);
            err = part->column->want->form == ARROW_LENGTH
                      ? put_length(part, spans[i].bytes)
                      : parquet_put_extent(part, target->block, spans[i].offset + target->offset,
                                           spans[i].bytes, error);
        }
        count -= some;
    }
    return err;
}

static bool in_dictionary(int32_t encoding) {
    return encoding == PARQUET_PLAIN_DICTIONARY || encoding == PARQUET_RLE_DICTIONARY;
}

// The page itself as a block, or its dictionary.
static int put_in_place(struct parquet_part *part, struct parquet_binary *binary, struct error *error) {
    const struct parquet_pages *pages = &part->rows->pages;
    struct target target = {.block = part->block};
    struct index_block block = part->dictionary_block;
    int err = 0;
    if (part->column->want->form == ARROW_LENGTH)
        return put_spans(part, binary, pages->page.values, &target, error);
    if (!in_dictionary(binary->encoding)) {
        parquet_pages_block(pages, &block);
        // A block has what of the page may be compressed, and is therefore without the levels of a newer page.
        target.offset =
            (uint64_t)(pages->body.values - pages->bytes) - pages->page.rep_bytes - pages->page.def_bytes;
        err = parquet_add_block(part, &block, &target.block, error);
    } else if (part->block == UINT32_MAX) {
        err = parquet_add_block(part, &block, &part->block, error);
        target.block = part->block;
    }
    return err ? err : put_spans(part, binary, pages->page.values, &target, error);
}

// A block of the page's values, laid end to end; its number will be the next one.
static int add_joined(struct parquet_part *part, uint64_t decoded, struct error *error) {
    const struct parquet_pages *pages = &part->rows->pages;
    struct index_block block;
    uint32_t number;
    parquet_pages_joined(part, pages->header, pages->next, decoded, &block);
    block.scratch = pages->page.decoded;
    if (part->column->fixed && pages->page.encoding == PARQUET_BYTE_STREAM_SPLIT)
        block.parameters[BLOCK_PARQUET_STORED] = block.parameters[BLOCK_PARQUET_BYTES] = part->column->fixed;
    return parquet_add_block(part, &block, &number, error);
}

static int put_joined(struct parquet_part *part, struct parquet_binary *binary, struct error *error) {
    const struct target target = {.block = (uint32_t)part->rows->rows.blocks.count};
    int err = put_spans(part, binary, part->rows->pages.page.values, &target, error);
    if (err || part->column->want->form == ARROW_LENGTH)
        return err;
    return add_joined(part, binary->at, error);
}

// The bytes of all values are mixed, so that they have to be put together first.
static int put_split(struct parquet_part *part, struct error *error) {
    const struct parquet_pages *pages = &part->rows->pages;
    const uint32_t block = (uint32_t)part->rows->rows.blocks.count, fixed = part->column->fixed;
    const uint64_t count = pages->page.values;
    int err = 0;
    if (count > pages->body.value_bytes / fixed)
        return error_set(error, -EINVAL, "found a page with fewer values than it says");
    for (uint64_t i = 0; i < count && !err; i++)
        err = parquet_put_extent(part, block, i * fixed, fixed, error);
    return err ? err : add_joined(part, count * fixed, error);
}

static int put_bytes(struct parquet_part *part, const struct parquet_pages *pages, struct error *error) {
    const int32_t encoding = pages->page.encoding;
    struct parquet_binary binary;
    if (part->column->fixed && encoding == PARQUET_BYTE_STREAM_SPLIT)
        return put_split(part, error);
    int err = parquet_binary_open(&binary, encoding, part->column->fixed, pages->body.values,
                                  pages->body.value_bytes, pages->page.values, &part->spans, error);
    if (err)
        return err;
    return encoding == PARQUET_DELTA_BYTE_ARRAY ? put_joined(part, &binary, error)
                                                : put_in_place(part, &binary, error);
}

// ---- Pages ---------------------------------------------------------------------------------------------------

// Marks the rows of the page that are null, of which it stores nothing.
static int take_nulls(struct parquet_part *part, struct rle *rle, uint64_t count, struct error *error) {
    const uint32_t most = part->column->levels.def;
    uint32_t level;
    int err = 0;
    for (uint64_t i = 0; i < count && !err && rle_read(rle, &level, 1) == 1; i++)
        if (level != most)
            err = parquet_take_null(part, part->row + i, error);
    return err;
}

// How many rows the page has a value of.
static int check_levels(struct parquet_part *part, const struct parquet_pages *pages, uint64_t *present,
                        struct error *error) {
    const uint32_t most = part->column->levels.def;
    struct rle rle = rle_open(pages->body.def, pages->body.def_bytes, parquet_level_bits(most));
    *present = pages->page.values;
    if (pages->page.values > part->most - part->row)
        return error_set(error, -EINVAL, "found more values than the %" PRIu64 " rows", part->most);
    if (!most)
        return 0;
    struct rle all = rle;
    *present = 0;
    if (!rle_count(&all, pages->page.values, most, present))
        return parquet_refuse_levels(error);
    // Which rows they are takes a second look.
    return *present < pages->page.values ? take_nulls(part, &rle, pages->page.values, error) : 0;
}

static int put_present(struct parquet_part *part, const struct parquet_pages *pages, struct error *error) {
    return part->column->binary ? put_bytes(part, pages, error) : put_values(part, pages, error);
}

// An entry without bytes, in a block that the file has.
static int null_entry(struct parquet_part *part, uint64_t present, uint8_t *entry, struct error *error) {
    const size_t row_bytes = part->rows->fields->row_bytes;
    struct index_block block;
    struct index_extent extent = {0};
    int err = 0;
    if (part->column->want->index.column.kind == COLUMN_VALUES) {
        memset(entry, 0, part->column->want->index.column.bytes);
        return 0;
    }
    if (present) {
        memcpy(&extent, part->entry - row_bytes, sizeof extent);
        extent.offset = extent.bytes = 0;
    } else {
        parquet_pages_joined(part, part->rows->pages.header, part->rows->pages.header, 0, &block);
        err = parquet_add_block(part, &block, &extent.file, error);
    }
    memcpy(entry, &extent, sizeof extent);
    return err;
}

// The entries of values that were put one after another move to the rows that are not null, the last one first.
static int spread(struct parquet_part *part, const struct parquet_pages *pages, uint64_t rows,
                  uint64_t present, struct error *error) {
    const uint32_t most = part->column->levels.def;
    const size_t row_bytes = part->rows->fields->row_bytes;
    const struct dataset_column *column = &part->column->want->index.column;
    const size_t bytes = column->kind == COLUMN_VALUES ? column->bytes : sizeof(struct index_extent);
    uint8_t *first = part->entry - present * row_bytes;
    _Alignas(8) uint8_t nothing[RING_MAX_FIELDS * sizeof(struct index_extent)];
    AUTO_FREE uint8_t *is_null = calloc(rows, sizeof *is_null);
    struct rle rle = rle_open(pages->body.def, pages->body.def_bytes, parquet_level_bits(most));
    if (!is_null)
        return error_set(error, -ENOMEM, "out of memory");
    uint32_t level;
    for (uint64_t i = 0; i < rows && rle_read(&rle, &level, 1) == 1; i++)
        is_null[i] = level != most;
    int err = null_entry(part, present, nothing, error);
    for (uint64_t row = rows, from = present; row-- > 0 && !err;) {
        const void *entry = is_null[row] ? nothing : first + --from * row_bytes;
        memmove(first + row * row_bytes, entry, bytes);
    }
    part->entry = first + rows * row_bytes;
    part->row += rows - present;
    return err;
}

static int take_page(struct parquet_part *part, struct parquet_pages *pages, struct error *error) {
    const uint64_t rows = pages->page.values;
    uint64_t present;
    int err = check_levels(part, pages, &present, error);
    pages->page.values = (uint32_t)present; // as the functions above count them
    if (!err && present)
        err = put_present(part, pages, error);
    pages->page.values = (uint32_t)rows;
    return err || present == rows ? err : spread(part, pages, rows, present, error);
}

int parquet_flat_add(struct parquet_part *part, struct error *error) {
    struct parquet_pages *pages = &part->rows->pages;
    int got;
    while ((got = parquet_pages_next(pages, error)) > 0) {
        int err;
        if (pages->page.kind == PARQUET_DICTIONARY) {
            err = take_dictionary(part, pages, error);
        } else {
            err = take_page(part, pages, error);
        }
        if (err)
            return err;
    }
    return got;
}
