// Which batch goes into which slot, and which consumer gets it when: the bookkeeping of one feed, without sockets or
// processes. Owned by the supervisor's one thread.
//
// A feed has a lane for each rank that is attached here. A lane dispatches the rank's batches in order into
// free slots; loaders fill them in any order; consumers of the lane are granted them in order. A slot is free
// again when every consumer that was due its batch has released it.
//
// A device pool has a delivery of its own, in whose slots batches lie on a GPU. Its batches come from the delivery of
// the feed's ring, its `source`: each of its lanes has a tap there, which takes the rank's batches in order like a
// consumer and holds none back. A batch is dispatched into the pool once it is complete in the ring; while the
// transfer process copies it, the ring's slot is kept.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_DELIVERY_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_DELIVERY_H

#include <sys/queue.h>

#include "base/error.h"
#include "order/partition.h"
#include "shm/ring.h"

// One consumer's place. Embedded in the session; zero before delivery_join.
struct consumer {
    LIST_ENTRY(consumer) link; // of its lane
    struct lane *lane;
    // Of a tap: whose batches it takes.
    const struct delivery *pool;
    const struct lane *pool_lane;
    uint64_t cursor; // sequence of the next batch it will be granted
    uint64_t end;    // it is due batches below this one
    uint32_t prefetch;
    uint32_t held_count;
    uint64_t held[RING_MAX_SLOTS / 64]; // slots granted and not released
    uint64_t waiting_since_ns;          // 0: it has batches in hand, or has not said that it waits
    uint64_t lagging_since_ns;          // 0: it holds nobody up
    uint64_t batches;                   // granted so far
    uint32_t word;                      // of a pool's consumer: which bit of slot_state.holders it is
};

struct lane {
    LIST_ENTRY(lane) link;
    LIST_HEAD(, consumer) consumers;
    uint64_t rank;
    uint64_t base;       // sequence of window[0]: the first batch that not everybody has been granted
    uint64_t end;        // nobody is due this one or later ones
    uint32_t length;     // dispatched batches base..base+length-1, slots in the window
    uint32_t ready;      // of them complete, from the front
    uint32_t slots_used; // in the window, or granted and not released by all
    struct consumer tap; // of a pool's lane: its place in the source
    uint32_t window_start;
    uint32_t window[]; // slot_count places, used as a ring from window_start
};

enum slot_phase {
    SLOT_FREE,
    SLOT_FILLING,
    SLOT_READY
};

struct slot_state {
    enum slot_phase phase;
    bool in_window;
    uint32_t references; // consumers that are due this batch and have not released it
    uint32_t copies;     // being made of it to pools
    struct lane *lane;   // NULL: nobody wants it any more; free once filled
    uint64_t sequence;
    // of a pool's slot: consumers that were granted what lies in it, or lay in it last; by `word`
    uint64_t holders;
    uint32_t source; // of a pool's slot that is being filled: the slot of the source
};

struct delivery {
    struct ring *ring;
    struct delivery *source; // a pool's; NULL: loaders fill the ring
    struct partition partition;
    // Counts the runs in this ring, from 1; ring_slot.run. Each run numbers its batches from 0 again, so without it a
    // client could take a batch of the present run for one that it was granted in an earlier run (ABA).
    uint64_t run;
    LIST_HEAD(, lane) lanes;
    uint32_t lane_count;
    bool shared;         // several consumers of a rank are to be expected
    uint32_t lane_limit; // local_world_size: the ring is shared out among so many lanes
    uint32_t consumer_count;
    // where the run's first consumer began, and ranks that come without a position do
    uint64_t first_sequence;
    struct slot_state *slots;
    uint32_t *free_slots;
    uint32_t free_count;
    uint32_t abandoned;   // FILLING slots that no lane has
    uint64_t completed;   // batches found complete, ever
    uint32_t ready_count; // slots READY, for the statistics
};

// -ENOMEM. For a pool set `source` afterwards.
int delivery_open(struct delivery *delivery, struct ring *ring, const struct partition *partition,
                  uint32_t lane_limit);
void delivery_close(struct delivery *delivery);

// Where a consumer wants to begin.
struct start_position {
    bool given; // false: where the lane stands
    uint64_t epoch;
    uint64_t consumed;
};

// Puts a consumer of `rank` on its lane, due the batches of epochs below `epochs` (0: all). prefetch: what it
// asks for, 0 to let the feed choose; consumer->prefetch is what it gets.
// -ENOSPC more ranks than lane_limit; -ESTALE `start` is no place that this run can go to (the sentence says why).
int delivery_join(struct delivery *delivery, struct consumer *consumer, uint32_t rank, uint64_t epochs,
                  const struct start_position *start, uint32_t prefetch, struct error *error);
void delivery_leave(struct delivery *delivery, struct consumer *consumer);

// Begins another run in the same ring; no consumer may be attached.
void delivery_restart(struct delivery *delivery, const struct partition *partition);

// -EINVAL: it does not hold that slot.
int delivery_release(struct delivery *delivery, struct consumer *consumer, uint32_t slot);

// Looks for finished batches and gives free slots out again. -EIO: a chunk failed; see ring_header.failure.
int delivery_pump(struct delivery *delivery);

// Takes the next batches a consumer may have now: their slots, in order from *sequence. Returns how many.
uint32_t delivery_grant(struct delivery *delivery, struct consumer *consumer, uint64_t *sequence,
                        uint32_t *slots, uint32_t most);

static inline bool consumer_at_end(const struct consumer *consumer) {
    return consumer->cursor >= consumer->end;
}

// The earliest batch that it keeps in the ring; it must hold one.
uint64_t delivery_oldest_held(const struct delivery *delivery, const struct consumer *consumer);

// Somebody waits for copies to come through that wait for this consumer's stream in a pool.
bool delivery_stalls(const struct delivery *pool, const struct consumer *consumer);

// Somebody waits for this consumer to release what it holds: another one of its lane, or one who is fed by the same
// batches in another place.
bool delivery_holds_up(const struct delivery *delivery, const struct consumer *consumer);

#endif
