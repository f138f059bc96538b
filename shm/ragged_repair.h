// The repair of a batch with ragged fields from which samples were skipped: the others follow each other, in their
// order. Unlike that of other batches it cannot be done again after half of it, because values move over each other: if
// its loader dies, all of the batch is read again (ring_recover).
#ifndef FEEDD_SHM_RAGGED_REPAIR_H
#define FEEDD_SHM_RAGGED_REPAIR_H

#include "base/scope.h"
#include "shm/ring_loader.h"

// `count` samples were dispatched. -EPROTO: somebody has written over offsets or places, so that values would not lie
// in the slot.
int ragged_repair(struct ring *ring, const struct ring_claim *claim, uint32_t count) MUST_CHECK;

#endif
