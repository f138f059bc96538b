// Slots that are being filled, but whose batch is no longer wanted there: no consumer is due it, or a loader that was
// reading it hangs. Such a loader was killed, but the kernel does not end it before its read is over, which may never
// happen, and until then the read may write to the slot. So the batch is filled into another slot, and this one is free
// once the loader has ended.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_ABANDONED_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_ABANDONED_H

#include "daemon/supervisor/delivery/types.h"

// Frees those that are not written any more.
void abandoned_collect(struct delivery *delivery);

// ---- Loaders that hang ---------------------------------------------------------------------------------------

// The batches that `owner` is reading count as hung from now on, because it has been silent since then.
void abandoned_note(struct delivery *delivery, uint32_t owner, uint64_t now, uint64_t since_ns);

// The tick: while no consumer waits for a batch that hangs, or for one before it, that time does not count against it.
// Nor does time count while the batch has to move and slots of the ring are still being allocated.
void abandoned_excuse(struct delivery *delivery, uint64_t now);

// The machine has stood still. That time does not count either.
void abandoned_stood_still(struct delivery *delivery, uint64_t from_ns, uint64_t to_ns);

// It was killed and does not end: the same batches are to be moved. Returns how many.
uint32_t abandoned_leave(struct delivery *delivery, uint32_t owner, uint64_t now, uint64_t since_ns);

// The pump: moves them, as far as there are slots.
void abandoned_move(struct delivery *delivery);

// Loaders that hung have ended and were recovered: what they left behind is not read again.
void abandoned_withdraw(struct delivery *delivery);

struct hung_batch {
    uint32_t owner;  // reads it; 0: anybody, or nobody
    bool moves;      // has not found another slot
    uint64_t now;    // that it hangs was noticed, or that it has to move, and has been waited for since, ...
    uint64_t ago_ns; // ... at least so long ago
};

// Since when a batch like that hangs, which has not been completed to this day; 0: there is none.
uint64_t abandoned_find(const struct delivery *delivery, const struct hung_batch *wanted);

// A lane waits for a slot that it is entitled to, nothing but the slots that were left behind is lacking, and nobody on
// the lane has batches in hand without waiting, too: since when one of these slots hangs. 0: no lane does, or slots of
// the ring are still being allocated. If memory for these is lacking, the feed gets it or fails for that reason.
uint64_t abandoned_starves(const struct delivery *delivery);

#endif
