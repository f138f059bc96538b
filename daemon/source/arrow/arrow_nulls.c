#include "daemon/source/arrow/arrow_nulls.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"

// A bitmap, read from front to back.
struct bits {
    struct arrow_input *input;
    uint64_t at, count; // next bit, and how many there are
    uint64_t loaded;    // bits that were read from the input
    uint64_t zeros;     // that were passed
    uint8_t window[1024];
};

static int load(struct bits *bits, struct error *error) {
    const uint64_t some = min_u64(bits->count - bits->loaded, sizeof bits->window * 8);
    int err = arrow_input_read(bits->input, bits->window, divide_up(some, 8), error);
    bits->loaded += some;
    return err;
}

// Passes the bits up to `to`; *found becomes true if one from `from` on is 0.
static int pass(struct bits *bits, uint64_t from, uint64_t to, bool *found, struct error *error) {
    for (; bits->at < to; bits->at++) {
        if (bits->at == bits->count)
            return error_set(error, -EINVAL, "found a bitmap of %" PRIu64 " values, wanted more",
                             bits->count);
        int err = bits->at == bits->loaded ? load(bits, error) : 0;
        if (err)
            return err;
        const uint64_t place = bits->at % (sizeof bits->window * 8);
        const bool null = !(bits->window[place / 8] >> (place % 8) & 1);
        bits->zeros += null;
        *found |= null && bits->at >= from;
    }
    return 0;
}

static int read_offset(struct arrow_rows *rows, uint32_t bytes, uint64_t *offset, struct error *error) {
    int32_t narrow;
    int err =
        arrow_input_read(&rows->input, bytes == sizeof *offset ? (void *)offset : &narrow, bytes, error);
    if (!err && bytes != sizeof *offset)
        *offset = (uint64_t)(int64_t)narrow;
    return err;
}

// A field of which each row has `each` values; 0: those between two offsets.
static int mark(struct arrow_rows *rows, const struct arrow_batch *batch, uint32_t number, struct bits *bits,
                uint64_t each, struct error *error) {
    const uint32_t wide = rows->columns[number].offset_bytes;
    uint64_t begin = 0, end = 0;
    int err = each ? 0 : read_offset(rows, wide, &begin, error);
    for (uint64_t row = 0; row < batch->rows && !err; row++) {
        bool found = false;
        end = begin + each;
        err = each ? 0 : read_offset(rows, wide, &end, error);
        if (!err && (begin > end || end > bits->count))
            return error_set(error, -EINVAL,
                             "found offsets from %" PRId64 " to %" PRId64 " for row %" PRIu64
                             ", wanted them to rise and to end by %" PRIu64,
                             (int64_t)begin, (int64_t)end, row, bits->count);
        if (!err)
            err = pass(bits, begin, end, &found, error);
        if (!err && found && !arrow_spoil(&rows->spoiled, batch->rows, row, number, ARROW_FAULT_NULL))
            return error_set(error, -ENOMEM, "out of memory");
        begin = end;
    }
    return err;
}

static int mark_field(struct arrow_rows *rows, const struct arrow_batch *batch, uint32_t number,
                      uint32_t field, uint64_t each, const struct index_block *offsets, uint64_t most,
                      struct error *error) {
    const struct arrow_node node = arrow_batch_node(batch, field);
    AUTO_FREE struct bits *bits = calloc(1, sizeof *bits);
    struct index_block block;
    if (!node.nulls)
        return 0;
    if (!bits)
        return error_set(error, -ENOMEM, "out of memory");
    bits->input = &rows->nulls;
    bits->count =
        min_u64(node.length, most); // a compressed bitmap may have far more bits than there are values
    if (node.length > INT64_MAX || (each && node.length / each < batch->rows))
        return error_set(error, -EINVAL, "found %" PRId64 " values in %" PRIu64 " rows", (int64_t)node.length,
                         batch->rows);
    int err =
        arrow_input_find(rows->file, batch, field, 0, divide_up(node.length, 8), rows->number, &block, error);
    if (!err)
        err = arrow_input_begin(&rows->nulls, &block, error);
    if (!err && !each)
        err = arrow_input_begin(&rows->input, offsets, error);
    if (!err)
        err = mark(rows, batch, number, bits, each, error);
    if (!err && !bits->zeros && each)
        return error_set(error, -EINVAL, "found %" PRId64 " nulls, but none in their bitmap",
                         (int64_t)node.nulls);
    return err;
}

int arrow_nulls_mark(struct arrow_rows *rows, const struct arrow_batch *batch, uint32_t number,
                     const struct index_block *offsets, uint64_t most, struct error *error) {
    const struct arrow_column *column = &rows->columns[number];
    const struct arrow_schema *schema = &rows->file->schema;
    uint32_t levels[RING_MAX_DIMS + 2], count = 0;
    uint64_t each = 1;
    int err = 0;
    // What it is in has a value per row.
    for (uint32_t i = column->field; i != ARROW_NO_FIELD && !err; i = schema->fields[i].parent)
        err = mark_field(rows, batch, number, i, 1, NULL, UINT64_MAX, error);
    for (uint32_t i = column->values; i != column->field && count < COUNT_OF(levels);
         i = schema->fields[i].parent)
        levels[count++] = i;
    while (count > 0 && !err) { // from the outside in
        const uint32_t field = levels[--count], size = schema->fields[schema->fields[field].parent].size;
        if (!column->offset_bytes && (!size || __builtin_mul_overflow(each, size, &each)))
            return 0; // no values at all, or more than a row can have, which is refused elsewhere
        err = mark_field(rows, batch, number, field, column->offset_bytes ? 0 : each, offsets, most, error);
    }
    return err;
}
