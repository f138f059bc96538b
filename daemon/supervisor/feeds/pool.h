// A device pool: the batches of one feed on one GPU, for the consumers there. Its ring has the control part alone,
// its delivery takes batches from the feed's; the memory on the GPU belongs to the device's transfer process and,
// beyond that one's death, to whoever has its descriptor.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_H

#include "base/error.h"
#include "daemon/supervisor/delivery/fill_tap.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/served_feed.h"

// WAITING: its device has no transfer process that is ready; OPENING: that one was asked. Both come again when a
// transfer process has died: then there are consumers, who notice nothing but a moment.
enum pool_state {
    POOL_WAITING,
    POOL_OPENING,
    POOL_OPEN,
    POOL_CLOSING, // the transfer process lets go of it
    POOL_STATES
};

struct pool {
    LIST_ENTRY(pool) feed_link;
    LIST_ENTRY(pool) device_link;
    struct served_feed *feed;
    struct device *device;
    uint32_t id;
    enum pool_state state;
    bool unrecovered; // what a transfer process had claimed when it died is not free yet
    bool known;       // the transfer process has been asked to open it and has not said that it is closed
    bool telling;     // its consumers, one after the other, that it has failed; then it closes
    int ring_fd, ring_read_fd;
    struct ring ring;
    struct tap tap; // fills it
    struct delivery delivery;
    int memory_fd; // -1 until it was made
    uint64_t memory_bytes;
    uint64_t planned_bytes; // of device_memory
    uint32_t owner;         // of the transfer process now, in chunk words
    uint32_t lane_limit;    // ranks on that GPU
    uint32_t crashes;       // of transfer processes that were opening it
    uint64_t words;         // bits of consumers
    uint64_t leaving;       // bits that the transfer process still knows as somebody else's
    uint64_t idle_since_ns; // 0: it has consumers
};

// The pool of a feed on a GPU, made if it is not there. It may not be open yet: then its sessions wait with
// feed_await, and are admitted or refused later.
int pool_get(struct served_feed *feed, const struct attach_request *request, struct pool **pool,
             struct error *error);

// pool_create.c also: whether sessions wait for it; frees one that nothing refers to; tells the statistics how many
// there are.
bool pool_is_awaited(const struct pool *pool);
void pool_discard(struct pool *pool);
void pool_count(const struct device *device);

// Gives a session its release words, before it joins the delivery; pool_leave takes them back after it has left.
int pool_enter(struct pool *pool, struct session *session, struct error *error);
void pool_leave(struct pool *pool, struct session *session);

// Lets the device's transfer process open it; called when that has become ready.
void pool_ask(struct pool *pool);

// What device.c hears about it from the transfer process; takes over `fd`, which is -1 if none came.
void pool_opened(struct pool *pool, uint64_t memory_bytes, int fd);
void pool_closed(struct pool *pool);
void pool_removed(struct pool *pool, uint32_t consumer);
void pool_refused(struct pool *pool, uint32_t consumer, int code, const char *text);
void pool_lagging(struct pool *pool, uint32_t consumer, uint64_t waited_ns);
void pool_transfer_died(struct pool *pool);

// Ends it with an error for all its consumers.
void pool_fail(struct pool *pool, int code, const char *text);

// Closes it; sessions must have left, or be about to with the feed.
void pool_close(struct pool *pool);

// Moves what can move between the feed's ring and the pool; true: the feed has slots to give out again.
bool pool_pump(struct pool *pool);

void pool_watch(struct pool *pool, uint64_t now);

#endif
