// What waits for a block: whoever wants one keeps this until it is told of the block (block_cache.h).
#ifndef FEEDD_DAEMON_LOADER_BLOCK_BLOCK_WAIT_H
#define FEEDD_DAEMON_LOADER_BLOCK_BLOCK_WAIT_H

#include "daemon/block/block.h"

// Which block: of which part of a mix, 0 otherwise, and its number there.
struct block_name {
    uint32_t part, number;
};

struct block_wait {
    struct block_wait *next;
    struct block_name name;
    const struct index_block *block;
    uint32_t file; // of the block, as requests have it
};

#endif
