// Writes an index from front to back into memory that is sealed at the end, and hashes it on the way.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_INDEX_WRITER_H
#define FEEDD_DAEMON_SOURCE_BUILD_INDEX_WRITER_H

#include "daemon/source/build/builder.h"

#define INDEX_BUFFER (64u << 10)

// The start of every index; columns follow, each at a multiple of 8.
struct dataset_index {
    uint64_t bytes; // of the whole index
    uint64_t samples;
};

struct index_writer {
    struct builder *builder;
    void *hash; // XXH3_state_t
    uint64_t written;
    size_t used;
    uint8_t buffer[INDEX_BUFFER];
};

// Begins the dataset's index; layout->index_bytes says how long it will be.
int index_writer_open(struct index_writer *writer, struct builder *builder, uint64_t samples);

// `count` is at most INDEX_BUFFER.
int index_write(struct index_writer *writer, const void *bytes, size_t count);

// Zeros up to the next multiple of 8.
int index_align(struct index_writer *writer);

// Seals the index, and sets layout->index_hash.
int index_writer_finish(struct index_writer *writer);

// After any of the above, whether it failed or not.
void index_writer_close(struct index_writer *writer);

#endif
