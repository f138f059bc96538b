// What a client holds of one feed at one daemon, from attaching to the last release. After a restart of the daemon a
// handle has a new attachment; the old one lives until the application has released what it holds of it.
#ifndef FEEDD_CLIENT_LIB_ATTACHMENT_H
#define FEEDD_CLIENT_LIB_ATTACHMENT_H

#include "base/error.h"
#include "client/feed.h"
#include "client/lib/connection.h"
#include "client/lib/finisher.h"
#include "client/lib/mapped_pool.h"
#include "client/lib/open_request.h"
#include "client/lib/own_window.h"
#include "order/mix_run.h"
#include "shm/ring.h"

// One slot of the ring, as this consumer sees it. Both are moved by leases.c and batch.c alone.
enum lease_state {
    LEASE_NONE,     // not ours
    LEASE_QUEUED,   // granted, not yet handed out
    LEASE_HELD,     // in the application's hands
    LEASE_RETURNED, // released, but the daemon has not been told
};

struct lease {
    uint64_t sequence;
    uint64_t fill;  // of the slot, as granted
    uint64_t range; // for profilers, while it is held
    enum lease_state state;
    bool finishing; // the work that makes its images is queued
};

// What a handle's first attachment was given. A reconnect asks for it again, so that no consumer has less than before,
// whoever returns first.
struct promise {
    uint32_t leases;
    uint32_t ring_slots; // of the feed's ring in host memory
    uint32_t pool_slots; // 0: host memory
};

struct attachment {
    struct attachment *past;            // the one before it of which leases are still held
    const struct open_request *request; // the handle's
    uint32_t generation;                // counts a handle's attachments

    struct connection connection; // closed once the daemon is lost
    struct ring ring;
    int ring_fd;              // for what may no longer be in memory: see leases.c
    struct mapped_pool pool;  // without a GPU all of it is 0
    struct finisher finisher; // of images that are finished here
    uint64_t pool_bytes;
    uint64_t run; // of the feed, as slots of ours say

    uint32_t prefetch;    // the most leases we may hold
    struct lease *leases; // one per slot
    uint32_t *queue;      // ring buffer of granted slots, `prefetch` places
    uint32_t queue_first, queue_count;
    uint32_t *returned; // slots of the next Release, `prefetch` places
    uint32_t returned_count;
    uint32_t held;
    uint64_t next_sequence; // of the next grant
    bool waiting;           // the daemon knows that we have nothing left

    uint64_t start_epoch, start_consumed; // where it began
    uint64_t epoch, consumed;             // after the last batch handed out
    uint64_t run_epoch, run_consumed;     // where the run began, for a reconnect
    struct own_window window;             // of a run whose order is of windows
    struct mix_run mix;                   // of a mix, for tokens; else zeros
    uint32_t mix_order;                   // ... and the enum order_version of its sources
    uint32_t wait_for; // for a reconnect, as the daemon said last; 0: the feed has not begun
    struct promise promised;
};

// Connects, attaches as `request` says and maps. With `before`, the attachment that was lost, it continues where that
// one stands, and refuses other data (-ESTALE). On failure nothing is left and *fresh is NULL; meanwhile it is set,
// for feed_fd() in a forked child.
int attachment_open(struct attachment **fresh, const struct open_request *request, struct gpu *gpu,
                    const struct attachment *before, uint64_t deadline, struct error *error);

// Waits for the GPU, unmaps, disconnects and frees. NULL is fine.
void attachment_close(struct attachment *attachment);

// The resume token for a place in the feed's order; -ERANGE for more samples than there are.
int attachment_token(const struct attachment *attachment, uint64_t epoch, uint64_t consumed,
                     char text[FEED_TOKEN_BYTES]);

// Where in the list that begins with *newest the attachment is that holds the batch; NULL when none does.
struct attachment **attachment_of(struct attachment **newest, const struct feed_batch *batch);

#endif
