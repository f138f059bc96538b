// What the metadata of an Arrow IPC file says: messages, schemas, record batches and footers, from flatbuffers.
//
// Files may be hostile. A message is verified before anything in it is looked at, and how much work that takes is
// bounded. What it says of the file (offsets, lengths) is not believed here, only handed on.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_MESSAGE_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_MESSAGE_H

#include "block/block.h"
#include "daemon/source/arrow/arrow_schema.h"

#include <stddef.h>

enum arrow_message_kind {
    ARROW_MESSAGE_SCHEMA,
    ARROW_MESSAGE_BATCH,
    ARROW_MESSAGE_DICTIONARY,
    ARROW_MESSAGE_OTHER,
};

// Points into the bytes that it was made from, like what is below.
struct arrow_message {
    enum arrow_message_kind kind;
    uint64_t body_bytes;
    const void *header;
    bool old_unions; // metadata of version 4
};

struct arrow_batch {
    uint64_t rows;
    uint32_t codec; // enum block_codec, of its buffers; BLOCK_PLAIN: none
    const void *header;
};

// What a batch says of one field.
struct arrow_node {
    uint64_t length, nulls;
};
struct arrow_buffer {
    uint64_t offset, bytes; // in the body
};

struct arrow_footer {
    const void *schema;
    const void *blocks;
    uint64_t block_count;
    bool old_unions;
};
struct arrow_block {
    uint64_t offset; // of a message, in the file
};

// `bytes` lie at a multiple of 8 in memory. Errors are -EINVAL or -ENOTSUP, with a sentence.
int arrow_message_open(const uint8_t *bytes, size_t count, struct arrow_message *message,
                       struct error *error);
int arrow_footer_open(const uint8_t *bytes, size_t count, struct arrow_footer *footer, struct error *error);

// Of a message that is a batch. It has a node for each field and as many buffers as they need.
int arrow_batch_read(const struct arrow_message *message, const struct arrow_schema *schema,
                     struct arrow_batch *batch, struct error *error);
struct arrow_node arrow_batch_node(const struct arrow_batch *batch, uint32_t field);
struct arrow_buffer arrow_batch_buffer(const struct arrow_batch *batch, const struct arrow_field *field,
                                       uint32_t which);

// `index` < block_count.
struct arrow_block arrow_footer_block(const struct arrow_footer *footer, uint64_t index);

#endif
