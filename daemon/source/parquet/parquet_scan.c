#include "daemon/source/parquet/parquet_scan.h"

#include <fcntl.h>
#include <inttypes.h>

#include "base/sizes.h"
#include "daemon/source/parquet/parquet_rows.h"

static int add_group(const struct parquet_file *file, struct parquet_rows *rows,
                     const struct parquet_chunk *chunks, uint64_t count, struct error *error) {
    int err = parquet_rows_add(rows, chunks, count, error);
    if (err)
        error_prefix(error, "row group %" PRIu32, file->footer.number);
    return err;
}

static int scan_groups(struct parquet_file *file, struct parquet_rows *rows, struct error *error) {
    AUTO_FREE struct parquet_chunk *chunks = calloc(max_u64(file->schema.leaf_count, 1), sizeof *chunks);
    uint64_t count;
    if (!chunks)
        return error_set(error, -ENOMEM, "out of memory");
    int got = parquet_rows_start(rows, error);
    while (got == 0 && (got = parquet_footer_next(&file->footer, chunks, &count, error)) > 0)
        got = add_group(file, rows, chunks, count, error);
    return got;
}

int parquet_scan_file(const struct arrow_fields *fields, struct arrow_scan *scan) {
    struct parquet_file file;
    AUTO_FREE struct parquet_rows *rows = calloc(1, sizeof *rows);
    if (!rows)
        return error_set(&scan->error, -ENOMEM, "out of memory");
    int err = parquet_file_open(&file, scan->fd, scan->bytes, &scan->error);
    rows->fields = fields;
    rows->file = &file;
    rows->number = scan->file;
    rows->spoiled.listed = scan->listed;
    if (!err)
        err = parquet_pages_open(&rows->pages, &file, &scan->error);
    if (!err)
        err = scan_groups(&file, rows, &scan->error);
    parquet_pages_close(&rows->pages);
    arrow_spoiled_forget(&rows->spoiled);
    scan->rows = rows->rows;
    scan->incomplete = rows->spoiled.incomplete;
    parquet_file_release(&file);
    return err;
}
