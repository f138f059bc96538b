#include "daemon/source/arrow/arrow_scan.h"

#include <fcntl.h>
#include <inttypes.h>

#include "daemon/source/arrow/arrow_rows.h"

static int scan_batches(struct arrow_file *file, struct arrow_rows *rows, struct error *error) {
    struct arrow_batch batch;
    int got = arrow_rows_start(rows, error);
    while (got == 0 && (got = arrow_file_next(file, &batch, error)) > 0) {
        got = arrow_rows_add(rows, &batch, error);
        if (got)
            error_prefix(error, "batch %" PRIu64, file->number);
    }
    return got;
}

int arrow_scan_file(const struct arrow_fields *fields, struct arrow_scan *scan) {
    struct arrow_file file;
    AUTO_FREE struct arrow_rows *rows = calloc(1, sizeof *rows);
    if (!rows)
        return error_set(&scan->error, -ENOMEM, "out of memory");
    // Or the kernel, reading ahead of metadata and offsets, reads values too.
    posix_fadvise(scan->fd, 0, 0, POSIX_FADV_RANDOM);
    int err = arrow_file_open(&file, scan->fd, scan->bytes, &scan->error);
    rows->fields = fields;
    rows->file = &file;
    rows->number = scan->file;
    rows->spoiled.listed = scan->listed;
    if (!err)
        err = scan_batches(&file, rows, &scan->error);
    arrow_rows_finish(rows);
    posix_fadvise(scan->fd, 0, 0, POSIX_FADV_NORMAL);
    scan->rows = rows->rows;
    scan->incomplete = rows->spoiled.incomplete;
    arrow_file_release(&file);
    return err;
}
