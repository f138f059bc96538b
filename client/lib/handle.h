// What is behind a libfeed handle.
#ifndef FEEDD_CLIENT_LIB_HANDLE_H
#define FEEDD_CLIENT_LIB_HANDLE_H

#include "base/error.h"
#include "client/feed.h"
#include "client/lib/connection.h"
#include "client/lib/mapped_pool.h"
#include "order/order.h"
#include "shm/ring.h"

#define FEED_API __attribute__((visibility("default")))

// What attaching again would need: the options, with strings of our own.
struct open_request {
    char *socket, *dataset, *share, *resume, *client_name;
    struct feed_options options; // its strings point to those above
};

// One slot of the ring, as this consumer sees it.
enum lease_state {
    LEASE_NONE,     // not ours
    LEASE_QUEUED,   // granted, not yet asked for
    LEASE_HELD,     // in the application's hands
    LEASE_RETURNED, // released, the daemon does not know yet
};

struct lease {
    uint64_t sequence;
    enum lease_state state;
};

// A ring that a lost daemon served: it stays mapped until the application has released what it holds of it.
struct past_ring {
    struct past_ring *next;
    struct ring ring;
    struct mapped_pool pool;
    struct lease *leases;
    uint32_t held;
    uint32_t generation;
};

struct feed {
    struct open_request request;
    struct connection connection;
    struct error error; // the last one
    int failed;         // the error that ended this handle, negative; 0: alive
    bool ended;         // the daemon said End

    struct gpu *gpu; // NULL: host memory
    struct ring ring;
    struct mapped_pool pool;
    struct feed_description description;
    char field_names[FEED_MAX_FIELDS][RING_FIELD_NAME];

    struct lease *leases; // one a slot
    uint32_t *queue;      // ring buffer of granted slots, `prefetch` places
    uint32_t queue_first, queue_count;
    uint32_t *returned; // slots of the next Release, `prefetch` places
    uint32_t returned_count;
    uint32_t held;
    uint64_t next_sequence; // of the next grant
    bool waiting;           // the daemon knows that we have nothing left
    uint32_t wait_for;      // after a reconnect, as the last grant said

    uint32_t generation; // counts connections
    struct past_ring *past;
    uint64_t lost_until_ns; // the daemon is gone, and we look for it until then; 0: it is there
    uint64_t next_try_ns;

    uint64_t epoch, consumed;         // where the last batch handed out left us
    uint64_t run_epoch, run_consumed; // where the run began, for a reconnect
    struct order order;               // of order_epoch
    uint64_t order_epoch;
    bool order_known;
};

// Records the error that ends the handle, in words, and returns its code.
int feed_fail(struct feed *feed, int code, const char *format, ...) PRINTF_LIKE(3, 4);

// attach.c: connects, attaches and maps, as feed->request says; on a reconnect at feed_token() instead of its start.
int feed_attach(struct feed *feed, uint64_t deadline);
static inline struct interrupt feed_interrupt(const struct feed *feed) {
    return (struct interrupt){feed->request.options.interrupted, feed->request.options.interrupted_context};
}
void feed_drop_ring(struct ring *ring, struct mapped_pool *pool, struct lease *leases);

// reconnect.c. True when the loss of the daemon, for which `code` stands, is to be made good by reconnecting.
bool feed_lost(struct feed *feed, int code);

// One attempt, if it is time for one, that ends by `deadline` or soon after: 1 connected again, 0 not yet, -EINTR as
// feed_options.interrupted says, or the error that ends the handle.
int feed_reconnect(struct feed *feed, uint64_t deadline);

// The ring that a batch of this handle lies in; NULL when it is held no longer. *pool (unless NULL) is its pool.
const struct ring *feed_ring_of(const struct feed *feed, const struct feed_batch *batch,
                                const struct mapped_pool **pool);
int feed_release_past(struct feed *feed, const struct feed_batch *batch);
void feed_drop_past(struct feed *feed);

#endif
