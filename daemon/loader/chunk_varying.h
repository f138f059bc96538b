// Fields whose stored samples differ in size, while those that a stage makes of them do not: encoded images. The
// samples of a claim are read one after another into memory of the plan, which grows when a claim needs more.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_VARYING_H
#define FEEDD_DAEMON_LOADER_CHUNK_VARYING_H

#include "daemon/loader/chunk.h"

// False: no memory.
bool chunk_varying_init(struct chunk_plan *plan);
void chunk_varying_free(struct chunk_plan *plan);

// For the plan's claim: computes the places of its samples, and has memory for them. -ENOMEM
int chunk_varying_place(struct chunk_plan *plan);

// Of that memory.
uint64_t chunk_varying_bytes(const struct chunk_plan *plan);

// Gives it back. The plan must not be in use.
void chunk_varying_trim(struct chunk_plan *plan);

// What a sample of the claim, which is of the extent's part, has in it as it is stored.
uint64_t chunk_stored_bytes(const struct chunk_plan *plan, const struct chunk_extent *extent,
                            uint32_t member);

#endif
