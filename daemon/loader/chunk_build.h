// Makes the requests and pieces of a plan; private to chunk.c and chunk_build.c.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_BUILD_H
#define FEEDD_DAEMON_LOADER_CHUNK_BUILD_H

#include "daemon/loader/chunk.h"

// A sample of more than READER_MAX_BYTES is cut where the file offset is a multiple of this.
#define CHUNK_CUT 4096u

// Single-sample requests made from a failed one, followed by their pieces.
struct chunk_split {
    struct chunk_split *next;
    uint64_t reserved; // keeps requests, and so the pieces, aligned
    struct read_request requests[];
};

struct chunk_builder {
    struct chunk_plan *plan;
    struct read_request *request;    // the next free one
    struct iovec *piece;             // the next free one
    const struct dataset_file *file; // of the sample looked at last
    uint32_t number;                 // of that file, if the segment is a column
    bool in_block;                   // it lies in a block, which is not read for it alone
    bool parted;                     // it is a window in several stretches, or in one of a block
    uint64_t bytes;                  // of its segment
};

// The reads of one segment of every sample of the plan's claim.
void chunk_build_segment(struct chunk_builder *builder, uint32_t segment, bool merge);

// One request for one segment (of at most READER_MAX_BYTES) of the sample members[position].
void chunk_build_single(struct chunk_builder *builder, uint32_t segment, uint32_t position);

#endif
