// A device pool: the batches of one feed on one GPU, for the consumers there. Its ring has only the control part, and
// its delivery takes batches from the feed's. The memory on the GPU belongs to the device's transfer process and, after
// that dies, to whichever processes have its descriptor.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_H

#include "base/error.h"
#include "daemon/supervisor/delivery/fill_tap.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/served_feed.h"

// WAITING: its device has no transfer process that is ready; OPENING: the process has been asked. Both are repeated
// when a transfer process has died: the pool's consumers see only a brief pause.
enum pool_state {
    POOL_WAITING,
    POOL_OPENING,
    POOL_OPEN,
    POOL_CLOSING, // the transfer process is closing it
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
    struct pool_growth *growth; // of its slots; NULL: no ragged fields
    uint32_t owner;             // the current transfer process's number in chunk words
    uint32_t lane_limit;        // ranks on that GPU
    uint32_t crashes;           // transfer processes, in a row, that died while opening it
    uint64_t bits;              // of its consumers
    uint64_t leaving;           // bits of consumers that the transfer process has not removed yet
    uint64_t idle_since_ns;     // 0: it has consumers
};

// The events that its device sends it.
extern const struct tenant_events pool_tenant_events;

// Where a member takes its batches from, or will when it has its place: its pool's delivery, or that of the feed.
static inline struct delivery *member_delivery(const struct member *member) {
    struct served_feed *feed = member->feed ? member->feed : member->awaited;
    return member->pool ? &member->pool->delivery : &feed->delivery;
}

// Gives a member its release words, before it joins the delivery; pool_leave takes them back after it has left.
int pool_enter(struct pool *pool, struct member *member, struct error *error);
void pool_leave(struct pool *pool, struct member *member);

// Clients wait for a place in it.
bool pool_is_awaited(const struct pool *pool);

// Lets the device's transfer process open it, if there is one.
void pool_ask(struct pool *pool);

// Ends it with an error for all its consumers.
void pool_fail(struct pool *pool, int code, const char *text);

// Likewise, when its transfer process has done what no correct one does: that might never close the pool, for which the
// feed would wait, so it is replaced.
void pool_condemn(struct pool *pool, int code, const char *text);

// Closes the pool. Its consumers have left, or are about to.
void pool_close(struct pool *pool);

// Whether it can be freed because nothing of it is in use any more.
bool pool_is_over(const struct pool *pool);

// Moves batches between the feed's ring and the pool. True: the feed has slots to give out again.
bool pool_pump(struct pool *pool);

#endif
