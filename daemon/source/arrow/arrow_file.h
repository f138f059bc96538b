// The record batches of an Arrow IPC file or stream, one after another. Only metadata is read here.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_FILE_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_FILE_H

#include "daemon/source/arrow/arrow_message.h"

// One thread at a time.
struct arrow_file {
    int fd;         // the caller's
    uint64_t bytes; // of the file
    struct arrow_schema schema;
    // Of the batch that came last.
    uint64_t number; // from 1
    uint64_t body;   // where its buffers begin; they lie in the file
    uint64_t body_bytes;
    // Private.
    bool stream;   // else a file, which has a footer
    uint64_t next; // of a stream: offset of the next message; of a file: number of the next block
    struct arrow_footer footer;
    uint64_t taken; // by the batches that the footer has named so far
    uint8_t *first; // what schema and footer point into
    uint8_t *metadata;
    size_t metadata_room;
};

// Reads the schema. To be released, also on failure. `error` is not NULL, here and below.
int arrow_file_open(struct arrow_file *file, int fd, uint64_t bytes, struct error *error);
void arrow_file_release(struct arrow_file *file);

// 1: the next batch, valid until the next call; 0: there is none; or a negative errno and a sentence.
int arrow_file_next(struct arrow_file *file, struct arrow_batch *batch, struct error *error);

#endif
