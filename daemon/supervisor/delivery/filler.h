// A filler is whatever puts batches into the slots of a delivery. The rest of the delivery knows which batch of which
// rank is wanted next, who is due it and which slots are free, but not where its bytes come from. The fillers:
//
//   fill_loaders.c   loader processes read batches from storage
//   fill_tap.c       a transfer process copies them to a GPU from the slots of another delivery, which it taps
//
// Another one (a GPU that gathers samples from host memory; a dataset that is already in GPU memory) is one more file
// beside these. It provides a table of operations, and a function or object that whoever opens a delivery passes to
// delivery_open. What the table must have:
//
// - The words for messages, and `dispatch`: it writes the batch's place into ring_slot and queues its chunks, or has
//   the work started in another way. Whatever does the work marks the chunks in the ring as a loader does and wakes
//   the supervisor: the next pump finds the batch complete, failed, or still being written (ring_slot_poll).
//
// What it may have, where NULL means that there is nothing to do or to object to:
// - `ready`, if not every batch can be filled at any time, and `wake`, if the one that does the work sleeps.
// - `choose`, if not every batch fits into every slot.
// - `open`, `done` and `close`, if it keeps something per slot; `granted` and `left`, if it needs to know who reads
//   what.
// - `join` to `holds_up`, if it has a position of its own for each lane, which must follow the lane. lane->filling is
//   for that. A source that cannot go back or is shared with others says so in `admits` and `can_begin`.
//
// An operation may call downwards whatever delivery.h, join.h, lane.h and window.h declare, for a delivery that it
// takes batches from as well. Nothing else in this folder includes the header of a filler.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_FILLER_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_FILLER_H

#include <stddef.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/supervisor/delivery/types.h"

struct filler_operations {
    const char *rank_option; // the option that says for how many ranks the delivery is made
    const char *here;        // where they are: "on this machine"
    // What a consumer waits for whose batch is being filled, and one whose lane has no slot for it.
    enum wait_cause filling, no_slot;

    // Called by delivery_open and delivery_close. open: -ENOMEM; close also comes after an open that failed.
    int (*open)(struct delivery *delivery);
    void (*close)(struct delivery *delivery);

    // ---- Batches ----
    // What a lane waits for whose next batch is not `ready`. NULL: the same as if it were being filled.
    enum wait_cause (*waits_for)(const struct delivery *delivery, const struct lane *lane);
    // The lane's next batch, window_end(lane), can be dispatched.
    bool (*ready)(const struct delivery *delivery, const struct lane *lane);
    // Puts a free slot that batch `sequence` fits into where window_next_slot finds it. False: there is none now; the
    // next pump tries again.
    bool (*choose)(struct delivery *delivery, const struct lane *lane, uint64_t sequence);
    // Starts filling it into `slot`, which is free. False: not now; the next pump tries again.
    bool (*dispatch)(struct delivery *delivery, struct lane *lane, uint32_t slot);
    // Starts filling a batch of the lane that is not complete in the slot that it was dispatched to into another one,
    // which is free. NULL: nothing that fills slots can hang and leave them behind (abandoned.h).
    bool (*dispatch_again)(struct delivery *delivery, const struct lane *lane, uint64_t sequence,
                           uint32_t slot);
    // Samples of the lane's batch in that slot could not be read (RING_SLOT_LACKING): closes the gaps, or starts to
    // fill it again. NULL: that does not happen. 1: done. 0: it waits for memory; the next pump tries again. -EBADMSG:
    // what loaders wrote into the ring cannot be.
    int (*mend)(struct delivery *delivery, struct lane *lane, uint64_t sequence, uint32_t slot);
    // After a round of dispatches, of this many chunks.
    void (*wake)(struct delivery *delivery, uint32_t chunks);
    // Once per dispatch, when the slot is no longer written: the batch is complete, wanted or not, or the delivery
    // closes.
    void (*done)(struct delivery *delivery, uint32_t slot);

    // ---- Consumers ----
    // A consumer was granted what is in the slot.
    void (*granted)(struct delivery *delivery, const struct consumer *consumer, uint32_t slot);
    // It leaves; nothing it was granted is waited for any longer.
    void (*left)(struct delivery *delivery, const struct consumer *consumer);

    // ---- Where a lane is. `lane` may be NULL where `rank` is given: nobody has been on it. ----
    // -ESTALE: nobody can join this lane now; the error says why.
    int (*admits)(const struct delivery *delivery, const struct lane *lane, uint64_t rank,
                  struct error *error);
    // The lane can be filled from that batch on, by what it has and what the filler can still provide.
    bool (*can_begin)(const struct delivery *delivery, const struct lane *lane, uint64_t rank,
                      uint64_t sequence);
    // Where the first consumer of a rank begins by default; NULL: delivery->first_sequence.
    uint64_t (*first_start)(const struct delivery *delivery, uint64_t rank);
    // A consumer joins the lane at `sequence`, which can_begin allowed: be ready to fill it from window_end(lane), or
    // give up its window and begin at `sequence`, up to batch `end`. On failure the consumer has not joined.
    int (*join)(struct delivery *delivery, struct lane *lane, uint64_t sequence, uint64_t end,
                struct error *error);
    // lane->end has changed.
    void (*end_changed)(struct delivery *delivery, struct lane *lane);
    // The lane continues further ahead, at window_end(lane): nobody wants what is before that.
    void (*skipped)(struct delivery *delivery, struct lane *lane);
    // The last consumer has left the lane, or the lane goes. May come twice.
    void (*leave)(struct delivery *delivery, struct lane *lane);
    // The lane is full, and for that reason others that take batches from the same source wait.
    bool (*holds_up)(const struct delivery *delivery, const struct lane *lane);
};

// Embedded in what a filler keeps per delivery, which it finds again with CONTAINER_OF.
struct filler {
    const struct filler_operations *operations;
};

// ---- Calls, with what a missing operation stands for -------------------------------------------------------

static inline const struct filler_operations *filler_of(const struct delivery *delivery) {
    return delivery->filler->operations;
}

static inline int filler_open(struct delivery *delivery) {
    return filler_of(delivery)->open ? filler_of(delivery)->open(delivery) : 0;
}

static inline void filler_close(struct delivery *delivery) {
    if (filler_of(delivery)->close)
        filler_of(delivery)->close(delivery);
}

static inline bool filler_ready(const struct delivery *delivery, const struct lane *lane) {
    return !filler_of(delivery)->ready || filler_of(delivery)->ready(delivery, lane);
}

static inline bool filler_choose(struct delivery *delivery, const struct lane *lane, uint64_t sequence) {
    return !filler_of(delivery)->choose || filler_of(delivery)->choose(delivery, lane, sequence);
}

static inline int filler_mend(struct delivery *delivery, struct lane *lane, uint64_t sequence,
                              uint32_t slot) {
    return filler_of(delivery)->mend ? filler_of(delivery)->mend(delivery, lane, sequence, slot) : -EBADMSG;
}

static inline void filler_wake(struct delivery *delivery, uint32_t chunks) {
    if (filler_of(delivery)->wake)
        filler_of(delivery)->wake(delivery, chunks);
}

static inline void filler_done(struct delivery *delivery, uint32_t slot) {
    if (filler_of(delivery)->done)
        filler_of(delivery)->done(delivery, slot);
}

static inline void filler_granted(struct delivery *delivery, const struct consumer *consumer, uint32_t slot) {
    if (filler_of(delivery)->granted)
        filler_of(delivery)->granted(delivery, consumer, slot);
}

static inline void filler_left(struct delivery *delivery, const struct consumer *consumer) {
    if (filler_of(delivery)->left)
        filler_of(delivery)->left(delivery, consumer);
}

static inline int filler_admits(const struct delivery *delivery, const struct lane *lane, uint64_t rank,
                                struct error *error) {
    return filler_of(delivery)->admits ? filler_of(delivery)->admits(delivery, lane, rank, error) : 0;
}

static inline bool filler_can_begin(const struct delivery *delivery, const struct lane *lane, uint64_t rank,
                                    uint64_t sequence) {
    return !filler_of(delivery)->can_begin || filler_of(delivery)->can_begin(delivery, lane, rank, sequence);
}

static inline uint64_t filler_first_start(const struct delivery *delivery, uint64_t rank) {
    return filler_of(delivery)->first_start ? filler_of(delivery)->first_start(delivery, rank)
                                            : delivery->first_sequence;
}

static inline int filler_join(struct delivery *delivery, struct lane *lane, uint64_t sequence, uint64_t end,
                              struct error *error) {
    return filler_of(delivery)->join ? filler_of(delivery)->join(delivery, lane, sequence, end, error) : 0;
}

static inline void filler_end_changed(struct delivery *delivery, struct lane *lane) {
    if (filler_of(delivery)->end_changed)
        filler_of(delivery)->end_changed(delivery, lane);
}

static inline void filler_skipped(struct delivery *delivery, struct lane *lane) {
    if (filler_of(delivery)->skipped)
        filler_of(delivery)->skipped(delivery, lane);
}

static inline void filler_leave(struct delivery *delivery, struct lane *lane) {
    if (filler_of(delivery)->leave)
        filler_of(delivery)->leave(delivery, lane);
}

static inline bool filler_holds_up(const struct delivery *delivery, const struct lane *lane) {
    return filler_of(delivery)->holds_up && filler_of(delivery)->holds_up(delivery, lane);
}

#endif
