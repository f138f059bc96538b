#include "daemon/source/parquet/parquet_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/source/build/source_read.h"

#define MAGIC_BYTES   4u
#define TAIL_BYTES    (sizeof(uint32_t) + MAGIC_BYTES) // the footer's length, and the magic
#define MOST_METADATA (256u << 20)

static int refuse_magic(const uint8_t *head, const uint8_t *tail, struct error *error) {
    if (memcmp(tail, "PARE", MAGIC_BYTES) == 0)
        return error_set(error, -ENOTSUP, "found an encrypted file, wanted one without encryption");
    if (memcmp(head, "PAR1", MAGIC_BYTES) == 0)
        return error_set(
            error, -ENODATA,
            "found no footer, wanted a whole Parquet file; it was cut, or its writer not closed");
    return error_set(error, -EINVAL, "found no Parquet file, which ends with PAR1");
}

static int read_metadata(struct parquet_file *file, uint32_t *length, struct error *error) {
    uint8_t head[MAGIC_BYTES], tail[TAIL_BYTES];
    if (file->bytes < MAGIC_BYTES + TAIL_BYTES)
        return error_set(error, -ENODATA, "found %" PRIu64 " bytes, wanted a Parquet file", file->bytes);
    int err = source_read(file->fd, head, sizeof head, 0, error);
    if (!err)
        err = source_read(file->fd, tail, sizeof tail, file->bytes - sizeof tail, error);
    if (err)
        return err;
    if (memcmp(tail + sizeof *length, "PAR1", MAGIC_BYTES) != 0)
        return refuse_magic(head, tail + sizeof *length, error);
    memcpy(length, tail, sizeof *length);
    if (*length > MOST_METADATA || *length > file->bytes - MAGIC_BYTES - TAIL_BYTES)
        return error_set(error, -EINVAL, "found a footer of %" PRIu32 " bytes in a file of %" PRIu64, *length,
                         file->bytes);
    file->metadata = malloc(max_u64(*length, 1));
    if (!file->metadata)
        return error_set(error, -ENOMEM, "out of memory");
    return source_read(file->fd, file->metadata, *length, file->bytes - sizeof tail - *length, error);
}

int parquet_file_open(struct parquet_file *file, int fd, uint64_t bytes, struct error *error) {
    uint32_t length = 0;
    *file = (struct parquet_file){.fd = fd, .bytes = bytes};
    int err = read_metadata(file, &length, error);
    if (!err)
        err = parquet_footer_read(file->metadata, length, &file->footer, error);
    return err ? err : parquet_schema_read(&file->footer, &file->schema, error);
}

void parquet_file_release(struct parquet_file *file) {
    parquet_schema_release(&file->schema);
    parquet_footer_release(&file->footer);
    free(file->metadata);
    file->metadata = NULL;
}
