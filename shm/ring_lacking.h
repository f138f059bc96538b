// Batches with ragged fields of which samples were skipped (RING_SLOT_LACKING), as the supervisor sees them.
#ifndef FEEDD_SHM_RING_LACKING_H
#define FEEDD_SHM_RING_LACKING_H

#include "shm/ring.h"

// Copies the skip bits of a LACKING slot, skip_words of them. Returns how many are set, or 0 if that contradicts what
// loaders have counted, or they have marked samples that the batch does not have.
uint32_t ring_take_skips(const struct ring *ring, uint32_t slot, uint64_t *skips);

// For ring_recover: the repair of the slot has ended in the middle. Makes all chunks RECOVERED; returns how many.
uint32_t ring_read_again(struct ring *ring, uint32_t slot);

#endif
