#include "client/ctl/pack_shard.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include <xxhash.h>

#include "base/sizes.h"

#define BUFFER_BYTES (1u << 20)
#define FLUSH_BYTES  (8u << 20) // so that the disk works all the time, and not only when a shard is finished

void pack_shard_name(const char *name, uint32_t number, char text[PACK_NAME_BYTES]) {
    snprintf(text, PACK_NAME_BYTES, "%s-%05" PRIu32 ".feed", name, number);
}

void pack_part_name(const char *name, char text[PACK_NAME_BYTES]) {
    snprintf(text, PACK_NAME_BYTES, "%s.part", name);
}

static int refuse_write(const struct pack_shard *shard, int err, struct error *error) {
    return error_set(error, err, "cannot write %s.part: %s", shard->name, strerror(-err));
}

// ---- Bytes ---------------------------------------------------------------------------------------------------

static int write_out(struct pack_shard *shard, const void *bytes, uint64_t count, struct error *error) {
    for (uint64_t done = 0; done < count;) {
        ssize_t wrote = write(shard->fd, (const uint8_t *)bytes + done, count - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return refuse_write(shard, wrote < 0 ? -errno : -ENOSPC, error);
        done += (uint64_t)wrote;
    }
    shard->written += count;
    // It need not succeed: fsync has the last word.
    for (; shard->written - shard->flushed >= FLUSH_BYTES; shard->flushed += FLUSH_BYTES)
        sync_file_range(shard->fd, (off_t)shard->flushed, FLUSH_BYTES, SYNC_FILE_RANGE_WRITE);
    return 0;
}

static int flush(struct pack_shard *shard, struct error *error) {
    int err = write_out(shard, shard->buffer, shard->used, error);
    shard->used = 0;
    return err;
}

// Zeros, if `bytes` is NULL.
static int put(struct pack_shard *shard, const void *bytes, uint64_t count, struct error *error) {
    if (shard->used + count > BUFFER_BYTES) {
        int err = flush(shard, error);
        if (err)
            return err;
        if (count >= BUFFER_BYTES)
            return write_out(shard, bytes, count, error);
    }
    if (bytes && count)
        memcpy(shard->buffer + shard->used, bytes, count);
    else
        memset(shard->buffer + shard->used, 0, count);
    shard->used += count;
    return 0;
}

static int add_to_column(struct pack_column *column, const void *bytes, uint64_t count, struct error *error) {
    if (column->room - column->used < count) {
        uint64_t room = max_u64(64 << 10, 2 * column->room);
        uint8_t *grown = realloc(column->bytes, room);
        if (!grown)
            return error_set(error, -ENOMEM, "out of memory");
        column->bytes = grown;
        column->room = room;
    }
    memcpy(column->bytes + column->used, bytes, count);
    column->used += count;
    return 0;
}

// ---- Samples -------------------------------------------------------------------------------------------------

static void forget(struct pack_shard *shard) {
    close_fd(&shard->fd);
    shard->written = shard->flushed = shard->used = shard->sample_end = 0;
    for (uint32_t i = 0; i < PACKED_MAX_FIELDS; i++)
        shard->columns[i].used = 0;
}

int pack_shard_begin(struct pack_shard *shard, uint32_t number, uint64_t position, struct error *error) {
    char part[PACK_NAME_BYTES];
    pack_part_name(shard->name, part);
    forget(shard);
    if (!shard->buffer && !(shard->buffer = malloc(BUFFER_BYTES)))
        return error_set(error, -ENOMEM, "out of memory");
    // Whatever an interrupted run has left there goes.
    shard->fd =
        openat(shard->folder, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (shard->fd < 0)
        return refuse_write(shard, -errno, error);
    struct packed_header *header = &shard->header;
    header->magic = PACKED_MAGIC;
    header->version = PACKED_VERSION;
    header->number = number;
    header->first_position = position;
    header->samples = 0;
    shard->sample_end = PACKED_PAGE;
    return put(shard, NULL, PACKED_PAGE, error); // the header, once all of it is known
}

static int check_value(const struct packed_field *field, const struct pack_value *value,
                       struct error *error) {
    if (!field->ragged && value->bytes != packed_field_bytes(field))
        return error_set(error, -EPROTO, "found %" PRIu64 " bytes in field %s of a sample, wanted %" PRIu64,
                         value->bytes, field->name, packed_field_bytes(field));
    if (value->bytes > PACKED_SAMPLE_BYTES)
        return error_set(error, -EFBIG,
                         "found %" PRIu64 " bytes in field %s of a sample, wanted at most 1 GiB",
                         value->bytes, field->name);
    return 0;
}

int pack_shard_add(struct pack_shard *shard, const struct pack_value *values, struct error *error) {
    const struct packed_header *header = &shard->header;
    uint64_t bytes = 0;
    int err = 0;
    for (uint32_t i = 0; i < header->field_count && !err; i++) {
        const enum packed_place place = packed_place(header, i);
        const uint32_t size = (uint32_t)values[i].bytes;
        err = check_value(&header->fields[i], &values[i], error);
        if (err)
            return err;
        if (place == PACKED_SIZED)
            err = add_to_column(&shard->columns[i], &size, sizeof size, error);
        if (place == PACKED_IN_TABLE)
            err = add_to_column(&shard->columns[i], values[i].data, size, error);
        else if (!err)
            err = put(shard, values[i].data, size, error);
        if (place != PACKED_IN_TABLE)
            bytes += size;
    }
    const uint64_t padded = align_up(bytes, header->alignment);
    if (!err)
        err = put(shard, NULL, padded - bytes, error);
    shard->sample_end += padded;
    shard->header.samples++;
    return err;
}

uint64_t pack_shard_table_bytes(const struct pack_shard *shard) {
    return packed_column(&shard->header, shard->header.field_count);
}

uint64_t pack_shard_bytes(const struct pack_shard *shard) {
    return shard->sample_end + pack_shard_table_bytes(shard);
}

// ---- The end -------------------------------------------------------------------------------------------------

static int put_table(struct pack_shard *shard, struct error *error) {
    struct packed_header *header = &shard->header;
    XXH3_state_t *hash = XXH3_createState();
    static const uint8_t zeros[8];
    if (!hash)
        return error_set(error, -ENOMEM, "out of memory");
    XXH3_64bits_reset(hash);
    int err = 0;
    for (uint32_t i = 0; i < header->field_count && !err; i++) {
        const struct pack_column *column = &shard->columns[i];
        const uint64_t rest = align_up(column->used, sizeof zeros) - column->used;
        XXH3_64bits_update(hash, column->bytes, column->used);
        XXH3_64bits_update(hash, zeros, rest);
        err = put(shard, column->bytes, column->used, error);
        if (!err)
            err = put(shard, NULL, rest, error);
    }
    header->table_offset = shard->sample_end;
    header->table_bytes = pack_shard_table_bytes(shard);
    header->table_hash = header->table_bytes ? XXH3_64bits_digest(hash) : 0;
    XXH3_freeState(hash);
    return err ? err : flush(shard, error);
}

static int put_header(const struct pack_shard *shard, struct error *error) {
    ssize_t wrote = pwrite(shard->fd, &shard->header, sizeof shard->header, 0);
    if (wrote != (ssize_t)sizeof shard->header)
        return refuse_write(shard, wrote < 0 ? -errno : -ENOSPC, error);
    return fsync(shard->fd) == 0 ? 0 : refuse_write(shard, -errno, error);
}

int pack_shard_finish(struct pack_shard *shard, uint64_t end_position, bool last, struct error *error) {
    char part[PACK_NAME_BYTES], name[PACK_NAME_BYTES];
    shard->header.end_position = end_position;
    shard->header.last = last;
    int err = put_table(shard, error);
    shard->header.header_hash = packed_hash(&shard->header);
    if (!err)
        err = packed_check(&shard->header, shard->written, error);
    if (!err)
        err = put_header(shard, error);
    if (err)
        return err;
    pack_part_name(shard->name, part);
    pack_shard_name(shard->name, shard->header.number, name);
    if (renameat(shard->folder, part, shard->folder, name) != 0)
        return error_set(error, -errno, "cannot rename %s to %s: %m", part, name);
    forget(shard);
    return fsync(shard->folder) == 0 ? 0
                                     : error_set(error, -errno, "cannot write the folder of %s: %m", name);
}

void pack_shard_close(struct pack_shard *shard) {
    char part[PACK_NAME_BYTES];
    if (shard->fd >= 0) {
        pack_part_name(shard->name, part);
        unlinkat(shard->folder, part, 0);
    }
    forget(shard);
    for (uint32_t i = 0; i < PACKED_MAX_FIELDS; i++)
        free(shard->columns[i].bytes);
    free(shard->buffer);
    shard->buffer = NULL;
}
