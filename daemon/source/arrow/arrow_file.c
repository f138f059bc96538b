#include "daemon/source/arrow/arrow_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/source/build/source_read.h"

#define MAGIC         "ARROW1"
#define MAGIC_BYTES   6u
#define TAIL_BYTES    (MAGIC_BYTES + sizeof(uint32_t)) // the footer's length, and the magic
#define MOST_METADATA (256u << 20)
#define CONTINUATION  0xffffffffu

static int refuse_end(const struct arrow_file *file, const char *what, uint64_t offset, uint64_t bytes,
                      struct error *error) {
    return error_set(error, -ENODATA,
                     "found the end of the file at byte %" PRIu64 ", wanted %s: %" PRIu64
                     " bytes at offset %" PRIu64,
                     file->bytes, what, bytes, offset);
}

static int refuse_kind(const uint8_t *head, struct error *error) {
    if (memcmp(head, "PAR1", 4) == 0)
        return error_set(error, -ENOTSUP,
                         "found a Parquet file, wanted an Arrow IPC file or stream, or format = parquet");
    if (memcmp(head, "FEA1", 4) == 0)
        return error_set(error, -ENOTSUP,
                         "found a Feather file of version 1, wanted version 2, which is an Arrow IPC file");
    return error_set(error, -EINVAL,
                     "found no schema at its start, wanted an Arrow IPC file, which begins with ARROW1, or an"
                     " Arrow IPC stream");
}

// ---- Messages ------------------------------------------------------------------------------------------------

// The length of the metadata at `offset`, and where it begins. 0: the end of a stream.
static int read_prefix(const struct arrow_file *file, uint64_t offset, uint64_t *at, uint32_t *length,
                       struct error *error) {
    uint32_t words[2] = {0};
    if (file->bytes - offset < sizeof words[0])
        return refuse_end(file, "a message", offset, sizeof words[0], error);
    uint64_t there = min_u64(sizeof words, file->bytes - offset);
    int err = source_read(file->fd, words, there, offset, error);
    if (err)
        return err;
    bool new_form = words[0] == CONTINUATION;
    if (new_form && there < sizeof words)
        return refuse_end(file, "a message", offset, sizeof words, error);
    *length = words[new_form];
    *at = offset + (new_form ? sizeof words : sizeof words[0]); // Arrow before 0.15 wrote the length alone
    return 0;
}

// Reads the metadata of the message at `offset`, which is not beyond the end. 1; 0 at the end of a stream.
static int read_message(struct arrow_file *file, uint64_t offset, struct arrow_message *message,
                        struct error *error) {
    uint32_t length;
    uint64_t at;
    int err = read_prefix(file, offset, &at, &length, error);
    if (err || length == 0)
        return err;
    if (length > MOST_METADATA)
        return error_set(error, -EFBIG,
                         "found metadata of %" PRIu32 " bytes at offset %" PRIu64 ", wanted at most %u",
                         length, offset, MOST_METADATA);
    if (length > file->bytes - at)
        return refuse_end(file, "metadata", at, length, error);
    if (length > file->metadata_room) {
        free(file->metadata);
        file->metadata = malloc(length);
        file->metadata_room = file->metadata ? length : 0;
    }
    if (!file->metadata)
        return error_set(error, -ENOMEM, "out of memory");
    err = source_read(file->fd, file->metadata, length, at, error);
    if (!err)
        err = arrow_message_open(file->metadata, length, message, error);
    if (err)
        return err;
    file->body = at + length;
    file->body_bytes = message->body_bytes;
    if (file->body_bytes > file->bytes - file->body)
        return refuse_end(file, "the body of a message", file->body, file->body_bytes, error);
    return 1;
}

// ---- The start -----------------------------------------------------------------------------------------------

static int open_file(struct arrow_file *file, struct error *error) {
    uint8_t tail[TAIL_BYTES];
    uint32_t length;
    if (file->bytes < 8 + TAIL_BYTES)
        return refuse_end(file, "a footer", 8, TAIL_BYTES, error);
    int err = source_read(file->fd, tail, sizeof tail, file->bytes - sizeof tail, error);
    if (err)
        return err;
    memcpy(&length, tail, sizeof length);
    if (memcmp(tail + sizeof length, MAGIC, MAGIC_BYTES) != 0)
        return error_set(
            error, -ENODATA,
            "found no footer, wanted a whole Arrow IPC file; it was cut, or its writer not closed");
    if (length > MOST_METADATA || length > file->bytes - 8 - TAIL_BYTES)
        return error_set(error, -EINVAL, "found a footer of %" PRIu32 " bytes in a file of %" PRIu64, length,
                         file->bytes);
    file->first = malloc(max_u64(length, 1));
    if (!file->first)
        return error_set(error, -ENOMEM, "out of memory");
    err = source_read(file->fd, file->first, length, file->bytes - sizeof tail - length, error);
    if (!err)
        err = arrow_footer_open(file->first, length, &file->footer, error);
    return err ? err : arrow_schema_read(file->footer.schema, file->footer.old_unions, &file->schema, error);
}

static int open_stream(struct arrow_file *file, struct error *error) {
    struct arrow_message message = {0};
    file->stream = true;
    int got = read_message(file, 0, &message, error);
    if (got < 0)
        return got;
    if (got == 0 || message.kind != ARROW_MESSAGE_SCHEMA)
        return error_set(error, -EINVAL, "found no schema at its start, wanted an Arrow IPC stream");
    file->next = file->body + file->body_bytes;
    file->first = file->metadata; // what is read next goes elsewhere
    file->metadata = NULL;
    file->metadata_room = 0;
    return arrow_schema_read(message.header, message.old_unions, &file->schema, error);
}

// A stream begins with its schema, which is small; so the first words tell it from other files.
static bool looks_like_stream(const uint8_t head[8]) {
    uint32_t words[2];
    memcpy(words, head, sizeof words);
    uint32_t length = words[words[0] == CONTINUATION];
    return length >= 8 && length <= MOST_METADATA && length % 8 == (words[0] == CONTINUATION ? 0 : 4);
}

int arrow_file_open(struct arrow_file *file, int fd, uint64_t bytes, struct error *error) {
    uint8_t head[8];
    *file = (struct arrow_file){.fd = fd, .bytes = bytes};
    if (bytes < sizeof head)
        return refuse_end(file, "an Arrow IPC file or stream", 0, sizeof head, error);
    int err = source_read(file->fd, head, sizeof head, 0, error);
    if (err)
        return err;
    if (memcmp(head, MAGIC, MAGIC_BYTES) == 0)
        return open_file(file, error);
    return looks_like_stream(head) ? open_stream(file, error) : refuse_kind(head, error);
}

void arrow_file_release(struct arrow_file *file) {
    arrow_schema_release(&file->schema);
    free(file->first);
    free(file->metadata);
    file->first = file->metadata = NULL;
}

// ---- Batches -------------------------------------------------------------------------------------------------

static int next_of_stream(struct arrow_file *file, struct arrow_message *message, struct error *error) {
    for (;;) {
        if (file->next >= file->bytes)
            return 0;
        int got = read_message(file, file->next, message, error);
        if (got <= 0) {
            file->next = file->bytes;
            return got;
        }
        file->next = file->body + file->body_bytes;
        if (message->kind == ARROW_MESSAGE_BATCH)
            return 1;
        if (message->kind != ARROW_MESSAGE_DICTIONARY)
            return error_set(error, -EINVAL, "found %s, wanted record batches",
                             message->kind == ARROW_MESSAGE_SCHEMA ? "a second schema" : "another message");
    }
}

static int next_of_file(struct arrow_file *file, struct arrow_message *message, struct error *error) {
    if (file->next == file->footer.block_count)
        return 0;
    struct arrow_block block = arrow_footer_block(&file->footer, file->next++);
    if (block.offset >= file->bytes)
        return refuse_end(file, "a record batch", block.offset, 8, error);
    int got = read_message(file, block.offset, message, error);
    if (got < 0)
        return got;
    if (got == 0 || message->kind != ARROW_MESSAGE_BATCH)
        return error_set(error, -EINVAL,
                         "found no record batch at offset %" PRIu64 ", where the footer has one",
                         block.offset);
    // A small footer could otherwise have large metadata read millions of times.
    const uint64_t bytes = file->body + file->body_bytes - block.offset;
    if (bytes > file->bytes - file->taken)
        return error_set(error, -EINVAL, "found a footer that has the same record batches again and again");
    file->taken += bytes;
    return 1;
}

int arrow_file_next(struct arrow_file *file, struct arrow_batch *batch, struct error *error) {
    struct arrow_message message = {0};
    int got = file->stream ? next_of_stream(file, &message, error) : next_of_file(file, &message, error);
    if (got <= 0)
        return got;
    file->number++;
    int err = arrow_batch_read(&message, &file->schema, batch, error);
    if (err) {
        error_prefix(error, "batch %" PRIu64, file->number);
        return err;
    }
    return 1;
}
