// Where the values of ragged fields lie in a slot: computed for each batch before it is dispatched, from the sizes in
// the index of the dataset, so that loaders that fill different chunks need not know of each other's samples.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_BATCH_PLACES_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_BATCH_PLACES_H

#include "base/error.h"
#include "daemon/supervisor/feeds/attach_request.h"
#include "order/partition.h"
#include "order/sampler.h"
#include "shm/ring.h"

struct batch_places; // NULL for a feed without ragged fields

// The shape's dataset must outlive it. *made is NULL if it has no ragged fields. Of a mix, this may take some ten
// milliseconds, so not on the loop.
int batch_places_open(const struct feed_shape *shape, const struct ring *ring, struct batch_places **made,
                      struct error *error);
void batch_places_close(struct batch_places *places);

// Writes the places of that batch to ring_own_places of the slot, and the attempts to ring_own_attempts if bad samples
// are replaced. Returns the bytes of the slot that it needs.
uint64_t batch_places_compute(struct batch_places *places, struct ring *ring, uint32_t slot,
                              const struct batch_place *place);

// Another slot takes what was computed for `from`.
void batch_places_take(struct ring *ring, uint32_t from, uint32_t to);

// Samples of the batch in the slot could not be read (RING_SLOT_LACKING), and are left out: asks for the repair, with
// the places without them. -EBADMSG: what loaders wrote into the ring cannot be.
int batch_places_close_up(struct batch_places *places, struct ring *ring, uint32_t slot,
                          const struct batch_place *place);

// ... and are replaced: computes the places of the batch with others in their places, and the bytes that it needs now.
// batch_places_commit, called next, makes them those of the slot, before ring_dispatch_again. If it is not called, this
// can be done again. Which samples are bad is remembered, of any number of them in the same memory.
int batch_places_replace(struct batch_places *places, struct ring *ring, uint32_t slot,
                         const struct batch_place *place, uint64_t *bytes);
void batch_places_commit(struct batch_places *places, struct ring *ring, uint32_t slot,
                         const struct batch_place *place);

#endif
