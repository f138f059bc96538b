#include "daemon/source/parquet/parquet_rows.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "block/block_parquet.h"
#include "daemon/source/parquet/parquet_flat.h"
#include "daemon/source/parquet/parquet_lists.h"

// ---- Columns -------------------------------------------------------------------------------------------------

// Bytes of a value as it is stored. 0: a bit, or they differ, or its type, of which only the length of lists is wanted,
// is unknown.
static uint32_t stored_bytes(const struct parquet_element *element) {
    static const uint32_t sizes[] = {0, 4, 8, 12, 4, 8, 0};
    if (element->physical == PARQUET_FIXED)
        return (uint32_t)element->length;
    const bool known = element->physical >= 0 && element->physical < (int32_t)COUNT_OF(sizes);
    return known ? sizes[element->physical] : 0;
}

static int find_column(const struct parquet_rows *rows, struct parquet_column *column, struct error *error) {
    const struct parquet_schema *schema = &rows->file->schema;
    struct arrow_column found;
    int err = arrow_column_find(&schema->columns, column->want, &found, error);
    if (err)
        return err;
    const enum arrow_kind kind = schema->columns.fields[found.field].kind;
    const struct parquet_leaf *leaf = &schema->leaves[schema->fields[found.field].leaf];
    column->leaf = schema->fields[found.field].leaf;
    column->def = schema->fields[found.field].def;
    column->levels = leaf->levels;
    column->list = kind == ARROW_LIST;
    column->binary = kind == ARROW_BINARY || kind == ARROW_FIXED_BINARY;
    column->fixed = kind == ARROW_FIXED_BINARY ? found.value_bytes : 0;
    column->type = (struct parquet_type){(uint32_t)leaf->element->physical, stored_bytes(leaf->element),
                                         (uint32_t)dtype_bytes(column->want->dtype)};
    return 0;
}

int parquet_rows_start(struct parquet_rows *rows, struct error *error) {
    for (uint32_t i = 0; i < rows->fields->count; i++) {
        rows->columns[i] = (struct parquet_column){.want = &rows->fields->fields[i], .number = i};
        int err = find_column(rows, &rows->columns[i], error);
        if (err) {
            error_prefix(error, "field.%s", rows->fields->fields[i].name);
            return err;
        }
    }
    return 0;
}

// ---- What parts add ------------------------------------------------------------------------------------------

static int spoil(struct parquet_part *part, uint64_t row, enum arrow_fault fault, struct error *error) {
    return arrow_spoil(&part->rows->spoiled, part->most, row, part->column->number, fault)
               ? 0
               : error_set(error, -ENOMEM, "out of memory");
}

int parquet_take_null(struct parquet_part *part, uint64_t row, struct error *error) {
    if (part->rows->spoiled.listed)
        return spoil(part, row, ARROW_FAULT_NULL, error);
    return error_set(error, -ENOTSUP,
                     "found a null in row %" PRIu64
                     " of column \"%s\", wanted none; fill or drop them with pyarrow, as with fill_null or"
                     " drop_null",
                     row, part->column->want->path);
}

int parquet_refuse_levels(struct error *error) {
    return error_set(error, -EINVAL, "found a page with fewer levels than it says");
}

static int refuse_count(const struct parquet_part *part, uint64_t count, struct error *error) {
    const struct arrow_want *want = part->column->want;
    return error_set(error, -EINVAL,
                     "found %" PRIu64 " values in row %" PRIu64 " of column \"%s\", wanted %" PRIu64
                     " in each; declare it as %s[], with pad.%s",
                     count, part->row, want->path, want->shape[0], dtype_name(want->dtype), want->name);
}

int parquet_put_extent(struct parquet_part *part, uint32_t block, uint64_t offset, uint64_t bytes,
                       struct error *error) {
    const struct arrow_want *want = part->column->want;
    if (want->form == ARROW_ARRAY && bytes != want->index.column.bytes) {
        if (!part->rows->spoiled.listed)
            return refuse_count(part, bytes / dtype_bytes(want->dtype), error);
        int err = spoil(part, part->row, ARROW_FAULT_COUNT, error);
        if (err)
            return err;
    }
    if (bytes > UINT32_MAX)
        return error_set(error, -EFBIG,
                         "found %" PRIu64 " bytes in row %" PRIu64
                         " of column \"%s\", wanted less than 4 GiB",
                         bytes, part->row, want->path);
    const struct index_extent extent = {offset, block, (uint32_t)bytes};
    memcpy(part->entry, &extent, sizeof extent);
    part->entry += part->rows->fields->row_bytes;
    part->row++;
    return 0;
}

int parquet_add_block(struct parquet_part *part, struct index_block *block, uint32_t *number,
                      struct error *error) {
    block->file = part->rows->number;
    block->first_row = (uint32_t)(part->rows->rows.count - part->most);
    int err = index_blocks_add(&part->rows->rows.blocks, block, number);
    if (block->codec != BLOCK_PLAIN)
        part->rows->rows.coded_columns |= 1u << part->column->number;
    if (err == -EFBIG)
        return error_set(error, err, "found too many pages, wanted at most %llu", BLOCK_MAX_COUNT);
    return err ? error_set(error, err, "out of memory") : 0;
}

void parquet_pages_joined(const struct parquet_part *part, uint64_t offset, uint64_t end, uint64_t decoded,
                          struct index_block *block) {
    const struct parquet_pages *pages = &part->rows->pages;
    const struct parquet_column *column = part->column;
    *block = (struct index_block){.stored[0] = {offset, 0}, .codec = BLOCK_PLAIN};
    if (!decoded)
        return;
    block->stored[0].bytes = end - offset;
    block->decoded = decoded;
    block->codec = BLOCK_PARQUET;
    block->scratch = pages->dictionary + pages->largest;
    block->parameters[BLOCK_PARQUET_CODEC] = pages->codec;
    block->parameters[BLOCK_PARQUET_PHYSICAL] = column->type.physical;
    block->parameters[BLOCK_PARQUET_LEVELS] = column->levels.def | column->levels.rep << 16;
}

// ---- Row groups ----------------------------------------------------------------------------------------------

// Chunks of a column lie apart from each other: otherwise a small footer could have a large chunk decoded millions of
// times.
static int count_chunk(struct parquet_part *part, const struct parquet_chunk *chunk, struct error *error) {
    uint64_t *bytes = &part->rows->columns[part->column->number].bytes;
    if (chunk->bytes > part->rows->file->bytes - *bytes)
        return error_set(error, -EINVAL, "found row groups that share their pages");
    *bytes += chunk->bytes;
    return 0;
}

static int add_part(struct parquet_part *part, const struct parquet_chunk *chunk, struct error *error) {
    struct parquet_pages *pages = &part->rows->pages;
    const struct parquet_column *column = part->column;
    const struct parquet_leaf *leaf = &part->rows->file->schema.leaves[column->leaf];
    if (chunk->physical != leaf->element->physical)
        return error_set(error, -EINVAL, "found a column whose type is not that of the schema");
    int err = parquet_pages_begin(pages, chunk, &leaf->levels, error);
    if (!err)
        err = count_chunk(part, chunk, error);
    if (!err)
        err = column->list ? parquet_lists_add(part, error) : parquet_flat_add(part, error);
    free(part->dictionary);
    free((void *)part->spans.spans);
    if (!err && part->row != part->most)
        return error_set(error, -EINVAL, "found %" PRIu64 " values in %" PRIu64 " rows", part->row,
                         part->most);
    return err;
}

int parquet_rows_add(struct parquet_rows *rows, const struct parquet_chunk *chunks, uint64_t count,
                     struct error *error) {
    if (count > INDEX_MAX_SAMPLES - rows->rows.count)
        return error_set(error, -EFBIG, "found too many samples, wanted at most %u", INDEX_MAX_SAMPLES);
    if (!count)
        return 0;
    uint8_t *row = index_rows_grow(&rows->rows, count, rows->fields->row_bytes);
    if (!row)
        return error_set(error, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < rows->fields->count; i++) {
        const struct parquet_column *column = &rows->columns[i];
        struct parquet_part part = {.rows = rows,
                                    .column = column,
                                    .entry = row + column->want->index.row_offset,
                                    .most = count,
                                    .block = UINT32_MAX};
        int err = add_part(&part, &chunks[column->leaf], error);
        if (err) {
            error_prefix(error, "column \"%s\"", column->want->path);
            return err;
        }
    }
    if (!arrow_spoiled_end(&rows->spoiled, rows->fields, &rows->rows, count))
        return error_set(error, -ENOMEM, "out of memory");
    return 0;
}
