#include "daemon/source/parquet/parquet_lists.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "block/block_parquet.h"

// The row that is being read.
struct list {
    struct parquet_part *part;
    uint32_t block;  // that will be
    bool begun;      // a row
    uint64_t first;  // value of it
    uint64_t values; // of all rows
};

static int end_row(struct list *list, struct error *error) {
    struct parquet_part *part = list->part;
    const uint64_t count = list->values - list->first;
    const uint64_t bytes = part->column->type.bytes;
    if (!list->begun)
        return 0;
    list->begun = false;
    if (part->column->want->form != ARROW_LENGTH)
        return parquet_put_extent(part, list->block, list->first * bytes, count * bytes, error);
    memcpy(part->entry, &count, sizeof count);
    part->entry += part->rows->fields->row_bytes;
    part->row++;
    return 0;
}

// `rep` 0 begins a row, 1 is another value of it, and more is inside of a value.
static int take_level(struct list *list, uint32_t def, uint32_t rep, struct error *error) {
    struct parquet_part *part = list->part;
    int err = 0;
    if (rep == 0) {
        err = end_row(list, error);
        if (!err && part->row == part->most)
            return error_set(error, -EINVAL, "found more rows than %" PRIu64, part->most);
        list->begun = true;
        list->first = list->values;
    } else if (!list->begun) {
        return error_set(error, -EINVAL, "found values before the first row");
    }
    if (err || rep > 1)
        return err;
    if (def < part->column->def)
        return parquet_take_null(part, part->row, error);
    if (def == part->column->def)
        return rep ? parquet_refuse_levels(error) : 0; // an empty list
    if (def < part->column->levels.def && part->column->want->form != ARROW_LENGTH)
        return parquet_take_null(part, part->row, error); // nothing is stored for it
    list->values++;
    return 0;
}

// `count` times the same levels, inside of a row: a few bytes can say so of 2^31 values. What holds for the first one
// holds for the others.
static int take_run(struct list *list, uint32_t def, uint32_t rep, uint64_t count, struct error *error) {
    const uint64_t before = list->values;
    int err = take_level(list, def, rep, error);
    if (!err && list->values != before)
        list->values += count - 1;
    return err;
}

static int take_page(struct list *list, const struct parquet_pages *pages, struct error *error) {
    const struct parquet_levels *levels = &list->part->column->levels;
    const struct parquet_body *body = &pages->body;
    struct rle reps = rle_open(body->rep, body->rep_bytes, parquet_level_bits(levels->rep));
    struct rle defs = rle_open(body->def, body->def_bytes, parquet_level_bits(levels->def));
    uint32_t rep[PARQUET_WINDOW], def[PARQUET_WINDOW];
    int err = 0;
    for (uint64_t left = pages->page.values, some; left && !err; left -= some) {
        some = min_u64(left, min_u64(rle_run(&reps, rep), rle_run(&defs, def)));
        if (some && rep[0]) {
            rle_skip(&reps, some);
            rle_skip(&defs, some);
            err = take_run(list, def[0], rep[0], some, error);
            continue;
        }
        some = min_u64(left, PARQUET_WINDOW);
        if (rle_read(&reps, rep, some) < some || rle_read(&defs, def, some) < some)
            return parquet_refuse_levels(error);
        for (uint64_t i = 0; i < some && !err; i++)
            err = take_level(list, def[i], rep[i], error);
    }
    if (!err && list->values > BLOCK_MAX_BYTES)
        return error_set(error, -EFBIG, "found more values in a row group than its bytes can have");
    return err;
}

int parquet_lists_add(struct parquet_part *part, struct error *error) {
    struct parquet_pages *pages = &part->rows->pages;
    const uint64_t offset = pages->next;
    struct list list = {.part = part, .block = (uint32_t)part->rows->rows.blocks.count};
    struct index_block block;
    int got;
    while ((got = parquet_pages_next(pages, error)) > 0) {
        int err = pages->page.kind == PARQUET_DICTIONARY ? 0 : take_page(&list, pages, error);
        if (err)
            return err;
    }
    int err = got ? got : end_row(&list, error);
    if (err || part->column->want->form == ARROW_LENGTH)
        return err;
    parquet_pages_joined(part, offset, pages->end, list.values * part->column->type.bytes, &block);
    block.parameters[BLOCK_PARQUET_STORED] = part->column->type.stored;
    block.parameters[BLOCK_PARQUET_BYTES] = part->column->type.bytes;
    return parquet_add_block(part, &block, &list.block, error);
}
