// One client's connection: framing, state, and what it is attached to.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_SESSION_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_SESSION_H

#include <sys/socket.h>

#include "base/scope.h"
#include "daemon/supervisor/delivery/delivery.h"
#include "daemon/supervisor/supervisor.h"
#include "gpu/gpu.h"

// What everybody who shares a feed must agree on.
struct feed_shape {
    const struct dataset *dataset;
    uint32_t batch_size;
    bool shuffle;
    bool drop_last;
    uint64_t seed;
    uint32_t world_size;
};

// An Attach, checked.
struct attach_request {
    struct feed_shape shape;
    char name[PROTO_MAX_NAME + 1]; // "" for a feed of one's own
    uint32_t rank;
    uint64_t epochs;
    uint32_t local_world_size;
    uint32_t prefetch;
    uint32_t wait_for;
    uint64_t max_lag_s;
    uint64_t ring_bytes;
    char device[GPU_UUID_BYTES]; // "": host memory
    uint32_t device_world_size;
    bool reconnect; // of a run that began there:
    uint64_t run_epoch, run_consumed;
    bool resume;                          // with a token:
    uint64_t start_epoch, start_consumed; // where the consumer stands
};

enum session_state {
    SESSION_NEW,       // has not said hello
    SESSION_GREETED,   // may ask, or attach
    SESSION_ATTACHING, // waits for its feed's ring to be made
    SESSION_ATTACHED,  // is a consumer
    SESSION_CLOSING,   // only what is unsent still goes out
    SESSION_CLOSED,
    SESSION_STATES
};

struct session {
    LIST_ENTRY(session) link;      // of the supervisor
    LIST_ENTRY(session) feed_link; // of its feed
    struct supervisor *supervisor;
    uint64_t id;
    enum session_state state;
    int fd;
    uv_poll_t poll;
    int polled; // events asked for
    struct ucred peer;
    char name[PROTO_MAX_NAME + 1];
    uint64_t opened_ns;
    uint64_t closing_since_ns;
    struct frame_reader reader;
    struct frame_writer writer;
    struct served_feed *feed;    // NULL unless ATTACHED
    struct served_feed *awaited; // NULL unless ATTACHING
    struct pool *pool;           // of a consumer on a GPU
    int words_fd;                // its release words
    uint64_t entered_ns;         // that pool
    uint64_t stalling_since_ns;  // others wait for its stream since; 0: none do
    uint64_t stalling_heard_ns;
    TAILQ_ENTRY(session) awaited_link;
    struct attach_request request; // of the Attach
    struct consumer consumer;
    bool end_sent;
    bool cut; // nothing is sent or handled any more; its end of file closes it
};

// Takes over `fd`.
int session_open(struct supervisor *supervisor, int fd, const struct ucred *peer);

// Queues a message; session_flush sends it. A client that does not read is cut off.
void session_send(struct session *session, const ProtobufCMessage *message);
void session_flush(struct session *session);

// Tells the client why in one Error, and closes once that is sent. `code` is a negative errno.
void session_fail(struct session *session, int code, const char *format, ...) PRINTF_LIKE(3, 4);

// An Error as the answer to a query or command: the session goes on.
void session_refuse(struct session *session, int code, const char *text);

// Leaves the feed and closes at once. The memory goes when libuv lets go of it.
void session_close(struct session *session);

// Where its consumer is: the feed's, or its pool's. Only while it is ATTACHED.
struct delivery *session_delivery(const struct session *session);

const char *session_state_name(enum session_state state);
void session_set_state(struct session *session, enum session_state state);

// session_ops.c: acts on one message. attach.c: makes a session a consumer.
void session_handle(struct session *session, const Feedd__ClientMessage *message);
void attach_session(struct session *session, const Feedd__Attach *attach);
// The second half, once the feed is there.
void attach_join(struct session *session, struct served_feed *feed);

#endif
