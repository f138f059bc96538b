#include "daemon/source/arrow/arrow_rows.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/arrow/arrow_nulls.h"

// A column in one batch. What lies in the file was checked.
struct column_part {
    const struct arrow_want *want;
    const struct arrow_column *column;
    struct index_block values, offsets;
    uint64_t most;  // values
    uint64_t rows;  // of the batch
    uint32_t block; // the values' number among those of the rows, where samples are extents
};

int arrow_rows_start(struct arrow_rows *rows, struct error *error) {
    int err = 0;
    rows->input.file = rows->nulls.file = rows->file;
    for (uint32_t i = 0; i < rows->fields->count && !err; i++) {
        err = arrow_column_find(&rows->file->schema, &rows->fields->fields[i], &rows->columns[i], error);
        if (err)
            error_prefix(error, "field.%s", rows->fields->fields[i].name);
    }
    return err;
}

void arrow_rows_finish(struct arrow_rows *rows) {
    arrow_spoiled_forget(&rows->spoiled);
    arrow_input_close(&rows->input);
    arrow_input_close(&rows->nulls);
}

// ---- Checks --------------------------------------------------------------------------------------------------

static int refuse_nulls(const struct arrow_want *want, uint64_t nulls, struct error *error) {
    return error_set(error, -ENOTSUP,
                     "found %" PRId64
                     " null%s in column \"%s\", wanted none; fill or drop them with pyarrow, as"
                     " with fill_null or drop_null",
                     (int64_t)nulls, nulls == 1 ? "" : "s", want->path);
}

// Neither the field, nor what it is in, nor its values may be null.
static int check_nulls(const struct arrow_rows *rows, const struct arrow_batch *batch,
                       const struct column_part *part, struct error *error) {
    const struct arrow_schema *schema = &rows->file->schema;
    for (uint32_t i = part->column->values; i != ARROW_NO_FIELD; i = schema->fields[i].parent) {
        uint64_t nulls = arrow_batch_node(batch, i).nulls;
        if (nulls)
            return refuse_nulls(part->want, nulls, error);
    }
    return 0;
}

static int find_part(const struct arrow_rows *rows, const struct arrow_batch *batch, struct column_part *part,
                     struct error *error) {
    const struct arrow_column *column = part->column;
    const struct arrow_field *field = &rows->file->schema.fields[column->field];
    const uint64_t length = arrow_batch_node(batch, column->field).length;
    if (length != batch->rows)
        return error_set(error, -EINVAL, "found %" PRId64 " values in %" PRIu64 " rows", (int64_t)length,
                         batch->rows);
    int err = rows->spoiled.listed ? 0 : check_nulls(rows, batch, part, error);
    // Rows are at most INDEX_MAX_SAMPLES, and a sample has at most 1 GiB.
    if (!err && column->offset_bytes && batch->rows)
        err = arrow_input_find(rows->file, batch, column->field, 1, (batch->rows + 1) * column->offset_bytes,
                               rows->number, &part->offsets, error);
    part->most = INT64_MAX;
    if (err || part->want->form == ARROW_LENGTH)
        return err;
    bool binary = field->kind == ARROW_BINARY || field->kind == ARROW_LARGE_BINARY;
    uint64_t wanted = column->offset_bytes  ? 0
                      : column->value_bytes ? batch->rows * column->value_bytes
                                            : divide_up(batch->rows, 8);
    err = arrow_input_find(rows->file, batch, column->values, binary ? 2 : 1, wanted, rows->number,
                           &part->values, error);
    if (!err && column->offset_bytes)
        part->most = part->values.decoded / column->value_bytes;
    if (!err && column->offset_bytes && !binary)
        part->most = min_u64(part->most, arrow_batch_node(batch, column->values).length);
    return err;
}

// ---- Rows ----------------------------------------------------------------------------------------------------

static uint64_t read_offset(const uint8_t *at, uint32_t bytes) {
    int32_t narrow;
    uint64_t wide;
    if (bytes == sizeof wide) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return (uint64_t)(int64_t)narrow; // a negative one is beyond any buffer
}

static int refuse_offsets(const struct column_part *part, uint64_t row, uint64_t begin, uint64_t end,
                          struct error *error) {
    return error_set(error, -EINVAL,
                     "found offsets from %" PRId64 " to %" PRId64 " for row %" PRIu64
                     " of column \"%s\", wanted them to rise and to end by %" PRIu64,
                     (int64_t)begin, (int64_t)end, row, part->want->path, part->most);
}

static int refuse_count(const struct column_part *part, uint64_t row, uint64_t count, struct error *error) {
    return error_set(error, -EINVAL,
                     "found %" PRIu64 " values in row %" PRIu64 " of column \"%s\", wanted %" PRIu64
                     " in each; declare it as %s[], with pad.%s",
                     count, row, part->want->path, part->want->shape[0], dtype_name(part->want->dtype),
                     part->want->name);
}

// One sample of a column with offsets.
static int put_ragged(struct arrow_rows *rows, const struct column_part *part, uint64_t row, uint64_t begin,
                      uint64_t end, uint8_t *entry, struct error *error) {
    const struct arrow_column *column = part->column;
    if (begin > end || end > part->most)
        return refuse_offsets(part, row, begin, end, error);
    if (part->want->form == ARROW_LENGTH) {
        const uint64_t length = end - begin;
        memcpy(entry, &length, sizeof length);
        return 0;
    }
    const uint64_t bytes = (end - begin) * column->value_bytes;
    if (part->want->form == ARROW_ARRAY && bytes != part->want->index.column.bytes) {
        if (!rows->spoiled.listed)
            return refuse_count(part, row, end - begin, error);
        const uint32_t number = (uint32_t)(part->want - rows->fields->fields);
        if (!arrow_spoil(&rows->spoiled, part->rows, row, number, ARROW_FAULT_COUNT))
            return error_set(error, -ENOMEM, "out of memory");
    }
    if (bytes > UINT32_MAX)
        return error_set(error, -EFBIG,
                         "found %" PRIu64 " bytes in row %" PRIu64
                         " of column \"%s\", wanted less than 4 GiB",
                         bytes, row, part->want->path);
    const struct index_extent extent = {begin * column->value_bytes, part->block, (uint32_t)bytes};
    memcpy(entry, &extent, sizeof extent);
    return 0;
}

static int put_all_ragged(struct arrow_rows *rows, const struct column_part *part, uint64_t count,
                          uint8_t *entry, struct error *error) {
    const uint32_t each = part->column->offset_bytes;
    const uint64_t at_once = ARROW_WINDOW / each;
    uint64_t begin = 0;
    int err = arrow_input_begin(&rows->input, &part->offsets, error);
    if (!err)
        err = arrow_input_read(&rows->input, rows->window, each, error);
    if (!err)
        begin = read_offset(rows->window, each);
    for (uint64_t row = 0; row < count && !err; row += at_once) {
        uint64_t some = min_u64(at_once, count - row);
        err = arrow_input_read(&rows->input, rows->window, some * each, error);
        for (uint64_t i = 0; i < some && !err; i++, entry += rows->fields->row_bytes) {
            uint64_t end = read_offset(rows->window + i * each, each);
            err = put_ragged(rows, part, row + i, begin, end, entry, error);
            begin = end;
        }
    }
    return err;
}

// Values are kept in the index: they are small, and reading each of them would cost more than a copy.
static int put_values(struct arrow_rows *rows, const struct column_part *part, uint64_t count, uint8_t *entry,
                      struct error *error) {
    const uint32_t each = part->column->value_bytes;
    const uint64_t at_once = each ? ARROW_WINDOW / each : ARROW_WINDOW * 8;
    int err = arrow_input_begin(&rows->input, &part->values, error);
    for (uint64_t row = 0; row < count && !err; row += at_once) {
        uint64_t some = min_u64(at_once, count - row);
        err = arrow_input_read(&rows->input, rows->window, each ? some * each : divide_up(some, 8), error);
        for (uint64_t i = 0; i < some && !err; i++, entry += rows->fields->row_bytes) {
            if (each)
                memcpy(entry, rows->window + i * each, each);
            else
                *entry = rows->window[i / 8] >> (i % 8) & 1;
        }
    }
    return err;
}

static void put_fixed(const struct arrow_rows *rows, const struct column_part *part, uint64_t count,
                      uint8_t *entry) {
    const uint32_t each = part->column->value_bytes;
    for (uint64_t row = 0; row < count; row++, entry += rows->fields->row_bytes) {
        const struct index_extent extent = {row * each, part->block, each};
        memcpy(entry, &extent, sizeof extent);
    }
}

// The block that the samples of a column lie in.
static int add_block(struct arrow_rows *rows, struct column_part *part, uint64_t count, struct error *error) {
    part->values.first_row = (uint32_t)(rows->rows.count - count);
    int err = index_blocks_add(&rows->rows.blocks, &part->values, &part->block);
    if (part->values.codec != BLOCK_PLAIN)
        rows->rows.coded_columns |= 1u << (part->want - rows->fields->fields);
    return err == -EFBIG
               ? error_set(error, err, "found too many blocks, wanted at most %llu", BLOCK_MAX_COUNT)
           : err ? error_set(error, err, "out of memory")
                 : 0;
}

static int put_part(struct arrow_rows *rows, struct column_part *part, uint64_t count, uint8_t *row,
                    struct error *error) {
    const enum arrow_form form = part->want->form;
    uint8_t *entry = row + part->want->index.row_offset;
    int err = form == ARROW_VALUE || form == ARROW_LENGTH ? 0 : add_block(rows, part, count, error);
    if (err)
        return err;
    if (part->column->offset_bytes)
        return put_all_ragged(rows, part, count, entry, error);
    if (form == ARROW_VALUE)
        return put_values(rows, part, count, entry, error);
    put_fixed(rows, part, count, entry);
    return 0;
}

int arrow_rows_add(struct arrow_rows *rows, const struct arrow_batch *batch, struct error *error) {
    struct column_part parts[RING_MAX_FIELDS] = {0};
    const uint32_t fields = rows->fields->count;
    int err = 0;
    if (batch->rows > INDEX_MAX_SAMPLES - rows->rows.count)
        return error_set(error, -EFBIG, "found too many samples, wanted at most %u", INDEX_MAX_SAMPLES);
    for (uint32_t i = 0; i < fields && !err; i++) {
        parts[i] = (struct column_part){
            .want = &rows->fields->fields[i], .column = &rows->columns[i], .rows = batch->rows};
        err = find_part(rows, batch, &parts[i], error);
    }
    if (err || !batch->rows)
        return err;
    for (uint32_t i = 0; i < fields && rows->spoiled.listed && !err; i++)
        err = arrow_nulls_mark(rows, batch, i, &parts[i].offsets, parts[i].most, error);
    if (err)
        return err;
    uint8_t *row = index_rows_grow(&rows->rows, batch->rows, rows->fields->row_bytes);
    if (!row)
        return error_set(error, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < fields && !err; i++)
        err = put_part(rows, &parts[i], batch->rows, row, error);
    if (!err && !arrow_spoiled_end(&rows->spoiled, rows->fields, &rows->rows, batch->rows))
        return error_set(error, -ENOMEM, "out of memory");
    return err;
}
