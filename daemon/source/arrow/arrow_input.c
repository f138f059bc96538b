#include "daemon/source/arrow/arrow_input.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/source/build/source_read.h"

#define NOT_COMPRESSED (-1) // in place of the length

void arrow_input_close(struct arrow_input *input) {
    for (uint32_t i = 0; i < BLOCK_CODECS; i++)
        block_stream_close(input->streams[i]);
}

// A compressed buffer begins with the length that it has when decoded.
static int read_length(const struct arrow_file *file, struct index_block *block, uint32_t codec,
                       struct error *error) {
    struct block_range *stored = &block->stored[0];
    int64_t length;
    if (stored->bytes < sizeof length)
        return error_set(error, -EINVAL,
                         "found a compressed buffer of %" PRIu64 " bytes, wanted at least %zu", stored->bytes,
                         sizeof length);
    int err = source_read(file->fd, &length, sizeof length, stored->offset, error);
    if (err)
        return err;
    stored->offset += sizeof length;
    stored->bytes -= sizeof length;
    block->decoded = length == NOT_COMPRESSED ? stored->bytes : (uint64_t)length;
    if (length == NOT_COMPRESSED)
        return 0;
    if (length < 0 || !stored->bytes != !length || (uint64_t)length > BLOCK_MAX_BYTES)
        return error_set(error, -EINVAL,
                         "found a compressed buffer of %" PRIu64 " bytes that says it has %" PRId64
                         " when decoded",
                         stored->bytes, length);
    block->codec = length ? codec : BLOCK_PLAIN;
    return 0;
}

int arrow_input_find(const struct arrow_file *file, const struct arrow_batch *batch, uint32_t field,
                     uint32_t which, uint64_t wanted, uint32_t number, struct index_block *block,
                     struct error *error) {
    const struct arrow_buffer buffer = arrow_batch_buffer(batch, &file->schema.fields[field], which);
    if (buffer.offset > file->body_bytes || buffer.bytes > file->body_bytes - buffer.offset)
        return error_set(error, -EINVAL,
                         "found a buffer of %" PRId64 " bytes at offset %" PRId64 " in a body of %" PRIu64,
                         (int64_t)buffer.bytes, (int64_t)buffer.offset, file->body_bytes);
    *block = (struct index_block){.stored = {{file->body + buffer.offset, buffer.bytes}},
                                  .decoded = buffer.bytes,
                                  .file = number,
                                  .codec = BLOCK_PLAIN};
    int err = batch->codec && buffer.bytes ? read_length(file, block, batch->codec, error) : 0;
    if (!err && block->codec == BLOCK_PLAIN)
        block->decoded = block->stored[0].bytes;
    if (!err && block->decoded < wanted)
        return error_set(error, -EINVAL, "found a buffer of %" PRIu64 " bytes, wanted %" PRIu64,
                         block->decoded, wanted);
    return err;
}

int arrow_input_begin(struct arrow_input *input, const struct index_block *block, struct error *error) {
    input->at = block->stored[0].offset;
    input->left = block->stored[0].bytes;
    input->used = input->filled = 0;
    input->stream = NULL;
    if (block->codec == BLOCK_PLAIN)
        return 0;
    struct block_stream **stream = &input->streams[block->codec];
    int err = *stream ? 0 : block_stream_open(stream, (enum block_codec)block->codec, error);
    input->stream = *stream;
    if (!err)
        block_stream_restart(input->stream);
    return err;
}

static int read_stored(struct arrow_input *input, void *to, size_t count, struct error *error) {
    if (count > input->left)
        return error_set(error, -EINVAL,
                         "found the end of a buffer at offset %" PRIu64 ", wanted %zu bytes more",
                         input->at + input->left, count);
    int err = source_read(input->file->fd, to, count, input->at, error);
    input->at += count;
    input->left -= count;
    return err;
}

int arrow_input_read(struct arrow_input *input, void *to, size_t count, struct error *error) {
    if (!input->stream)
        return read_stored(input, to, count, error);
    for (size_t done = 0; done < count;) {
        if (input->used == input->filled && input->left) {
            input->filled = min_u64(sizeof input->stored, input->left);
            input->used = 0;
            int err = read_stored(input, input->stored, input->filled, error);
            if (err)
                return err;
        }
        size_t in = input->filled - input->used, out = count - done;
        int err = block_stream_decode(input->stream, input->stored + input->used, &in, (uint8_t *)to + done,
                                      &out, error);
        if (err)
            return err;
        input->used += in;
        done += out;
        if (!in && !out)
            return error_set(error, -EBADMSG,
                             "found the end of a compressed buffer at offset %" PRIu64
                             ", wanted %zu bytes more",
                             input->at, count - done);
    }
    return 0;
}
