// A feed being served: its ring, its loaders, its lanes and the sessions attached to it.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_SERVED_FEED_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_SERVED_FEED_H

#include "base/error.h"
#include "base/scope.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/processes/loader_process.h"

enum feed_state {
    FEED_MAKING,    // its ring is being allocated, off the loop; its loaders start
    FEED_GATHERING, // waits for wait_for consumers before the first grant
    FEED_RUNNING,
    FEED_CLOSING, // its loaders are being ended
    FEED_STATES
};

struct served_feed {
    LIST_ENTRY(served_feed) link;
    struct supervisor *supervisor;
    uint64_t id;
    char name[PROTO_MAX_NAME + 1];
    uid_t user;
    enum feed_state state;
    struct feed_shape shape;
    struct dataset *dataset; // a reference
    uint32_t wait_for;
    uint32_t gathered;        // consumers that have joined while GATHERING
    uint64_t gather_until_ns; // RUNNING then, whoever is there; 0: wait for all
    uint64_t max_lag_ns;
    uint64_t idle_since_ns; // without consumers since; 0: it has some

    uint64_t ring_bytes;
    uint64_t asked_ring_bytes; // by its maker, as asked_prefetch
    uint32_t asked_prefetch;
    uint32_t asked_lanes; // its local_world_size
    int ring_fd, ring_read_fd, event_fd;
    struct ring ring;
    struct delivery delivery;
    struct pace pace;
    uv_poll_t event;
    bool event_open;
    LIST_HEAD(, session) sessions; // of host consumers and of those on GPUs
    uint32_t session_count;
    uint32_t twins;                 // pairs of them of the same rank
    TAILQ_HEAD(, session) awaiting; // sessions that join once it, or the pool they need, is made
    LIST_HEAD(, pool) pools;
    struct feed_making *making; // while a thread allocates the ring

    LIST_HEAD(, loader_process) children;
    uint32_t loaders_wanted;
    uint32_t loaders_running;
    uint32_t next_serial;
    struct respawn respawn;
    struct stats_feed *stats;
};

// A ring of one place for what is asked. -EOVERFLOW: the batch is too large, or too large for the GPU that is named.
int feed_plan_batch(const struct attach_request *request, struct ring_plan *plan, struct error *error);

// Begins to make a feed: its ring is allocated by a thread, since that can take long, while its loaders start; then the
// sessions that await it join. On failure nothing is left.
int feed_create(struct supervisor *supervisor, uid_t user, const struct attach_request *request,
                struct served_feed **made, struct error *error);

// Lets a session wait for a feed that is being made, or forget it again.
void feed_await(struct served_feed *feed, struct session *session);
void feed_forget(struct session *session);

// Tries again to let those join that await it.
void feed_admit(struct served_feed *feed);
// Tells those that await a pool on that GPU that there will be none.
void feed_refuse(struct served_feed *feed, const char *device, int code, const char *text);

// Frees a closed feed if nothing of it is open any more.
void feed_free_if_over(struct served_feed *feed);

static inline bool feed_in_use(const struct served_feed *feed) {
    return !LIST_EMPTY(&feed->sessions) || !TAILQ_EMPTY(&feed->awaiting);
}

// The partition of a run of this shape in which a batch begins there.
struct partition feed_partition(const struct feed_shape *shape, uint64_t epoch, uint64_t consumed);

// The run that a consumer needs: the one it was in before the daemon was lost, else one as above.
struct partition feed_run(const struct feed_shape *shape, const struct attach_request *request);

// Holds the first grant back until that many consumers have joined, but not beyond `until_ns` (0: for ever);
// nobody may be attached.
void feed_gather(struct served_feed *feed, uint32_t wait_for, uint64_t until_ns);
void feed_end_gathering(struct served_feed *feed);

void feed_set_state(struct served_feed *feed, enum feed_state state);

// Adds an attached session, whose consumer has joined the delivery. feed_leave takes it off again.
void feed_enter(struct served_feed *feed, struct session *session);
void feed_leave(struct served_feed *feed, struct session *session);

// Moves everything that can move: collects finished batches, dispatches, grants, sends.
void feed_pump(struct served_feed *feed);

// Ends the feed with an error for all its consumers.
void feed_fail(struct served_feed *feed, int code, const char *format, ...) PRINTF_LIKE(3, 4);

// Ends loaders and frees everything once they are gone. Sessions must have left or are closed.
void feed_close(struct served_feed *feed);

// Starts loaders until as many run as are wanted.
void feed_start_loaders(struct served_feed *feed);

// Retires a loader that is gone, if there is room to queue its chunks again.
void feed_finish_loader(struct served_feed *feed, struct loader_process *loader);

const char *feed_state_name(enum feed_state state);

#endif
