// A buffer of a record batch, compressed or not: where it is, and its values from front to back.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_INPUT_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_INPUT_H

#include "block/block_stream.h"
#include "daemon/source/arrow/arrow_file.h"

#define ARROW_INPUT_BYTES (32u << 10)

// One thread at a time.
struct arrow_input {
    const struct arrow_file *file;
    uint64_t at, left;                          // of the buffer, in the file
    struct block_stream *streams[BLOCK_CODECS]; // opened when they are needed
    struct block_stream *stream;                // of this buffer
    size_t used, filled;                        // of `stored`
    uint8_t stored[ARROW_INPUT_BYTES];
};

void arrow_input_close(struct arrow_input *input);

// Finds a buffer of the batch, of which at least `wanted` bytes are needed, and describes it as a block of file
// `number`: plain unless it is compressed.
int arrow_input_find(const struct arrow_file *file, const struct arrow_batch *batch, uint32_t field,
                     uint32_t which, uint64_t wanted, uint32_t number, struct index_block *block,
                     struct error *error);

// Begins with a block; then reads the next `count` bytes of what it becomes.
int arrow_input_begin(struct arrow_input *input, const struct index_block *block, struct error *error);
int arrow_input_read(struct arrow_input *input, void *to, size_t count, struct error *error);

#endif
