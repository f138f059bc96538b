// What waits for a block: whoever wants one keeps this until it is told of the block (block_cache.h).
#ifndef FEEDD_DAEMON_LOADER_BLOCK_BLOCK_WAIT_H
#define FEEDD_DAEMON_LOADER_BLOCK_BLOCK_WAIT_H

#include "block/block.h"

struct block_wait {
    struct block_wait *next;
    uint64_t number; // among the blocks of the dataset, or of all parts of a mix
    const struct index_block *block;
    uint32_t file; // of the block, as requests have it
    // The cache's, while another loader decodes the block: its claim, and since when it has been the same.
    uint64_t claim, since_ns;
    bool overdue;
};

struct block_waits {
    struct block_wait *first, **end; // `end` is set once there is a first one
};

#endif
