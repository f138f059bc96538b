// The blocks that a claim needs: its samples by block. Private to chunk.c and chunk_build.c, except for
// chunk_blocks_copy.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_BLOCKS_H
#define FEEDD_DAEMON_LOADER_CHUNK_BLOCKS_H

#include "daemon/loader/chunk.h"

// False: no memory.
bool chunk_blocks_init(struct chunk_plan *plan);
void chunk_blocks_free(struct chunk_plan *plan);

// The samples of one segment, one after another, and what they need.
void chunk_blocks_begin(struct chunk_plan *plan);
void chunk_blocks_add(struct chunk_plan *plan, uint32_t block, uint32_t member);
void chunk_blocks_end(struct chunk_plan *plan, uint32_t segment);

// Copies the samples of a need out of its block, which has become `decoded`.
void chunk_blocks_copy(const struct chunk_plan *plan, const struct chunk_need *need, const uint8_t *decoded);

#endif
