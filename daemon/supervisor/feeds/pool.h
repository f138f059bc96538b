// A device pool: the batches of one feed on one GPU, for the consumers there. Its ring has the control part alone,
// its delivery takes batches from the feed's; the memory on the GPU belongs to the device's transfer process and,
// after the death of that one, to those that have its descriptor.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_H

#include "base/error.h"
#include "daemon/supervisor/delivery/fill_tap.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/served_feed.h"

// WAITING: its device has no transfer process that is ready; OPENING: that one was asked. Both come again when a
// transfer process has died: the pool's consumers see only a brief pause.
enum pool_state {
    POOL_WAITING,
    POOL_OPENING,
    POOL_OPEN,
    POOL_CLOSING, // the transfer process lets go of it
};

struct pool {
    LIST_ENTRY(pool) link; // of its feed
    struct tenant tenant;  // of its device
    struct served_feed *feed;
    enum pool_state state;
    bool known; // the transfer process has been asked to open it and has not said that it is closed
    int ring_fd, ring_read_fd;
    struct ring ring;
    struct tap tap; // on the feed's delivery
    struct delivery delivery;
    LIST_HEAD(, member) members;
    int memory_fd; // -1 until it was made
    uint64_t memory_bytes;
    uint32_t owner;         // number of the transfer process now, in chunk words
    uint32_t lane_limit;    // ranks on that GPU
    uint32_t crashes;       // of transfer processes that were opening it, in a row
    uint64_t bits;          // of its consumers
    uint64_t leaving;       // bits that the transfer process still knows as somebody else's
    uint64_t idle_since_ns; // 0: it has consumers
};

// How its device tells it of things.
extern const struct tenant_events pool_tenant_events;

// Gives a member its release words, before it joins the delivery; pool_leave takes them back after it has left.
int pool_enter(struct pool *pool, struct member *member, struct error *error);
void pool_leave(struct pool *pool, struct member *member);

// Clients wait for a place in it.
bool pool_is_awaited(const struct pool *pool);

// Lets the device's transfer process open it, if there is one.
void pool_ask(struct pool *pool);

// Ends it with an error for all its consumers.
void pool_fail(struct pool *pool, int code, const char *text);

// Closes it. Its consumers have left, or are about to.
void pool_close(struct pool *pool);

// Nothing of it is in use any more: it can be freed.
bool pool_is_over(const struct pool *pool);

// Moves what can move between the feed's ring and the pool; true: the feed has slots to give out again.
bool pool_pump(struct pool *pool);

#endif
