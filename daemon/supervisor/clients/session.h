// One client's connection: framing, state, and its place in a feed.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_SESSION_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_SESSION_H

#include <sys/socket.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/supervisor/clients/peer_groups.h"
#include "daemon/supervisor/clients/user.h"
#include "daemon/supervisor/feeds/member.h"
#include "daemon/supervisor/supervisor.h"

enum session_state {
    SESSION_NEW,       // has not said hello
    SESSION_GREETED,   // may send queries, bring a view, or attach
    SESSION_BRINGING,  // sends a view, or waits until it is there
    SESSION_ATTACHING, // waits for a place in a feed
    SESSION_ATTACHED,  // has one
    SESSION_CLOSING,   // only sends what is still unsent
    SESSION_CLOSED,    // freed at the end of the turn
};

struct brought;

struct session {
    TAILQ_ENTRY(session) link; // of the supervisor
    struct mark mark;          // to be acted on
    struct mark unsent;        // has something to send
    struct mark over;          // to be freed
    struct supervisor *supervisor;
    struct user *user;
    struct feed_wait feed_wait;
    uint64_t id;
    enum session_state state;
    int fd;
    struct poll_entry poll;
    struct ucred peer;
    struct peer_groups groups; // read when they first matter
    bool trusted;              // root or the daemon's own user
    char name[PROTO_MAX_NAME + 1];
    uint64_t opened_ns;
    uint64_t closing_since_ns;
    struct frame_reader reader;
    struct frame_writer writer;
    struct member member;
    uint64_t attaching_since_ns; // it waits for the index of its dataset; 0: it does not
    struct {
        uint64_t round, generation; // of indexing.h, that it waits for; 0: none
    } index;
    struct brought *brought; // the view that it has brought; NULL: none
    bool traces;             // it has turned the timeline on (tracing.h)
    bool readable;           // the socket has something for us, possibly end of file
    bool ended;              // the client has closed its end: what it sent before is still handled
    bool throttled;          // it asks too often: nothing more is read or handled before the next tick
    bool postponed;          // the message that was just handled is to be handled again then
    bool deferred;           // ... in the next turn
    bool hung_up;            // nothing is sent or handled any more
};

// Takes over `fd`. NULL: out of memory, or the kernel has no room to watch the descriptor; the caller keeps `fd`.
struct session *session_open(struct supervisor *supervisor, int fd, const struct ucred *peer);

// Makes the turn act on it.
void session_mark(struct session *session);

// Queues a message, which goes out at the end of the turn. A client that does not read is cut off.
void session_send(struct session *session, const ProtobufCMessage *message);
void session_flush(struct session *session);

// Sends the client one Error with the reason, and ends the session once that is sent. `code` is a negative errno.
void session_fail(struct session *session, int code, const char *format, ...) PRINTF_LIKE(3, 4);

// Answers to a query or command, after which the session continues: Error and Done.
void session_refuse(struct session *session, int code, const char *text);
void session_done(struct session *session, const char *text);

// Ends the session at once; nothing more is sent.
void session_close(struct session *session);

// Reads what has arrived, as far as the buffer has room.
void session_receive(struct session *session);

// Nothing is read until session_unthrottle.
void session_throttle(struct session *session);
void session_unthrottle(struct session *session);

// Frees the sessions that have been closed. They have left their feeds.
void sessions_free(struct supervisor *supervisor);

const char *session_state_name(enum session_state state);
void session_set_state(struct session *session, enum session_state state);

static inline struct session *session_of(struct member *member) {
    return CONTAINER_OF(member, struct session, member);
}

#endif
