// The leases of an attachment: slots that the daemon granted, and slots that go back. Releases travel several in one
// message.
#ifndef FEEDD_CLIENT_LIB_LEASES_H
#define FEEDD_CLIENT_LIB_LEASES_H

#include "base/error.h"
#include "client/lib/attachment.h"

// Puts the granted slots, if any, into the queue. -EPROTO for a grant that breaks the rules.
int leases_grant(struct attachment *attachment, const Feedd__Grant *grant, struct error *error);

// A slot of the pool has memory of its own from here on. Takes the descriptor from the connection.
int leases_grow_slot(struct attachment *attachment, const Feedd__SlotMemory *memory, struct error *error);

// Forgets what was granted and not handed out: after a loss the daemon grants it again, from the token on.
void leases_forget_queue(struct attachment *attachment);

// What a slot of the ring says, in place, or in *copy once the ring may have been emptied.
const struct ring_slot *leases_record(const struct attachment *attachment, uint32_t slot,
                                      struct ring_slot *copy);

// The same for which samples were skipped; `copy` has room for the header's skip_words.
const _Atomic uint64_t *leases_skips(const struct attachment *attachment, uint32_t slot, uint64_t *copy);

// Where the values of ragged fields begin in a chunk of the slot, which has at most chunks_per_slot; in the chunk after
// the last one: where they end. `places` has one for each of these fields.
void leases_places(const struct attachment *attachment, uint32_t slot, uint32_t chunk, uint64_t *places);

// False when the slot has been filled again since it was granted, if only with the same batch: the daemon detached us
// and took everything back. Reads of the batch, or of its record, that come before the call were of the right one if it
// returns true.
bool leases_still_ours(const struct attachment *attachment, uint32_t slot);

// Takes a held slot back from the application, for the next Release.
void leases_return(struct attachment *attachment, uint32_t slot);

// Of batches that are held when the attachment closes.
void leases_end_ranges(const struct attachment *attachment);

// Whether the next Release should go now, although we do not wait for a batch.
bool leases_are_due(const struct attachment *attachment);

// Tells the daemon that this consumer knows its place.
void leases_confirm(struct attachment *attachment);

// Tells the daemon what was returned, and whether we now wait.
void leases_send(struct attachment *attachment, bool waiting);

#endif
