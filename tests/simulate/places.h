// Where the samples of ragged fields lie in a slot, found with the loader's own code.
#ifndef FEEDD_TESTS_SIMULATE_PLACES_H
#define FEEDD_TESTS_SIMULATE_PLACES_H

#include "daemon/dataset/dataset.h"
#include "shm/ring_loader.h"

struct places; // NULL: there are no ragged fields

struct places *places_open(const struct dataset *dataset, const struct ring *ring);
void places_close(struct places *places);

// Of the stored samples of a chunk that was claimed, in bytes from the start of the slot. Writes their offsets there.
void places_find(struct places *places, const struct ring_claim *claim, const uint64_t *samples,
                 uint64_t *found);

#endif
