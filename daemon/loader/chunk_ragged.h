// The samples of ragged fields in a chunk: where each is read to, and the offsets that are delivered with them.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_RAGGED_H
#define FEEDD_DAEMON_LOADER_CHUNK_RAGGED_H

#include "daemon/loader/chunk.h"

// False: no memory.
bool chunk_ragged_init(struct chunk_plan *plan);
void chunk_ragged_free(struct chunk_plan *plan);

// For the plan's claim: computes the places, and writes the offsets of its samples into the slot. -EPROTO: the ring
// does not have the room that the index says, so somebody has written over it; then nothing may be read.
int chunk_ragged_place(struct chunk_plan *plan);

#endif
