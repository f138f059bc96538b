// What a delivery consists of: consumers, lanes and slots. Data only; delivery.h says how they work together.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_TYPES_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_TYPES_H

#include <sys/queue.h>

#include "order/partition.h"
#include "shm/ring.h"

struct consumer;
struct filler;

// The answers of a consumer that takes batches on behalf of others, as a tap does (fill_tap.h).
struct consumer_operations {
    // None of the others has been granted anything since it joined.
    bool (*untouched)(const struct consumer *consumer);
    // The first batch that one of the others has yet to be granted.
    uint64_t (*start)(const struct consumer *consumer);
    // One of the others waits for a batch that this consumer has yet to take, and there is room for it.
    bool (*starves)(const struct consumer *consumer);
};

// What a consumer waits for.
enum wait_cause {
    WAIT_LOADERS, // its batch is being filled, or comes next, even if its slot has yet to be allocated
    WAIT_COPY,    // it is being copied to the GPU
    WAIT_POOL,    // no slot of the GPU's pool is free
    WAIT_RANK,    // another consumer, which is behind, holds the slots that the next batches need
    WAIT_OTHERS,  // other consumers have not attached yet
    WAIT_CAUSES
};

// One consumer's place. Embedded in whatever takes the batches: a client's member of a feed, or a lane of a tap; zero
// before delivery_join.
struct consumer {
    LIST_ENTRY(consumer) link; // of its lane
    struct lane *lane;
    const struct consumer_operations *operations; // NULL: it takes batches for itself
    uint64_t cursor;                              // sequence of the next batch it will be granted
    uint64_t end;                                 // it is due batches below this one
    uint32_t prefetch;
    uint32_t held_count;
    uint64_t held[RING_MAX_SLOTS / 64]; // slots granted and not released
    uint64_t waiting_since_ns;          // 0: it has batches in hand, or has not said that it waits
    uint64_t wait_counted_ns;           // while it waits: up to when that is in the statistics
    enum wait_cause cause;              // ... and what for, when this was last looked at
    uint64_t lagging_since_ns;          // 0: it holds nobody up
    uint64_t batches;                   // granted so far
    uint32_t bit;                       // of a consumer on a GPU: its number in ring_slot.unread
};

struct lane {
    LIST_ENTRY(lane) link;
    LIST_HEAD(, consumer) consumers;
    uint64_t rank;
    uint64_t base;       // sequence of window[0]: the first batch that some consumer has yet to be granted
    uint64_t end;        // nobody is due this batch or later ones
    uint32_t length;     // batches dispatched and in the window: base..base+length-1
    uint32_t ready;      // of them complete, from the front
    uint32_t slots_used; // in the window, or granted and not released by everybody
    void *filling;       // the filler's own; NULL unless it has put something there
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
    uint32_t copies;     // being made of it by the fillers of other deliveries
    uint64_t granted_ns; // last, to anybody
    struct lane *lane; // NULL: nobody wants the batch here any more; the slot is free once it is not written
    uint64_t sequence;
    // A loader hung while it read the batch: when that was noticed, or last excused (abandoned_excuse), and since when.
    // 0: none did.
    uint64_t hung_ns, hung_since_ns;
    bool moves;        // to be filled into another slot, since that loader does not end
    uint64_t moves_ns; // since then
};

struct delivery {
    struct ring *ring;
    const struct filler *filler;
    struct partition partition;
    // Counts the runs in this ring, from 1. Sequences begin again at 0 in each, so that without it a slot could be
    // taken for another run's.
    uint64_t run;
    LIST_HEAD(, lane) lanes;
    uint32_t lane_count;
    bool shared; // several consumers per rank are to be expected
    uint32_t
        lane_limit; // the ring is divided among this many lanes: local_world_size, of a pool device_world_size
    uint32_t consumer_count;
    bool goes_back; // during a join that may take lanes back: start_position.goes_back
    // Where the run's first consumer began, and where ranks that come without a position begin.
    uint64_t first_sequence;
    struct slot_state *slots;
    uint32_t *free_slots;
    uint32_t free_count;
    uint32_t slot_count;  // that there are; the ring's others are still being allocated
    uint32_t abandoned;   // FILLING slots without a lane
    uint32_t moving;      // slots that `moves` is set for
    bool has_hung;        // a loader, ever
    bool lacks;           // a batch has ever been found RING_SLOT_LACKING
    uint32_t mends_left;  // of this pump
    uint64_t completed;   // batches found complete, ever
    uint32_t ready_count; // slots READY, for the statistics
    bool behind;          // the last pump left free slots for the next one, which is to follow soon
};

static inline bool consumer_at_end(const struct consumer *consumer) {
    return consumer->cursor >= consumer->end;
}

static inline bool consumer_is_due(const struct consumer *consumer, uint64_t sequence) {
    return sequence >= consumer->cursor && sequence < consumer->end;
}

// For a batch that it has yet to be granted, or that those whom it takes batches for have.
static inline bool consumer_waits(const struct consumer *consumer) {
    return consumer->operations ? consumer->operations->starves(consumer) : consumer->waiting_since_ns != 0;
}

static inline bool consumer_holds(const struct consumer *consumer, uint32_t slot) {
    return consumer->held[slot / 64] >> (slot % 64) & 1;
}

#endif
