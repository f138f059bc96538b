// Where the values of ragged fields lie, and which samples stand there (ring_header.places_offset, attempts_offset).
// The supervisor writes the places and attempts of a batch before its chunks are FREE, from copies of its own; loaders
// and clients read them.
#ifndef FEEDD_SHM_RING_PLACES_H
#define FEEDD_SHM_RING_PLACES_H

#include "shm/ring.h"

// The supervisor's, of the batch that it dispatches into `slot`: to the ring, or from another ring's. A ring without
// ragged fields has none.
void ring_places_publish(struct ring *ring, uint32_t slot);
void ring_places_copy(struct ring *ring, uint32_t slot, const struct ring *from, uint32_t source);

// The supervisor's again: where the values end as they are delivered, once it has left out samples.
void ring_places_publish_end(struct ring *ring, uint32_t slot);
// As if it had not.
void ring_places_restore_end(struct ring *ring, uint32_t slot);

#endif
