// A connection to feedd: hello, messages out and in, with deadlines. Under libfeed's handles and feedctl's
// queries.
#ifndef FEEDD_CLIENT_LIB_CONNECTION_H
#define FEEDD_CLIENT_LIB_CONNECTION_H

#include "base/error.h"
#include "base/time.h"
#include "proto/codec.h"

// Deadlines are monotonic_ns() values.
#define DEADLINE_NONE     UINT64_MAX // wait for ever
#define DEADLINE_NOW      0u         // do not wait
#define CONNECTION_UNSENT (4u * PROTO_MAX_MESSAGE)

// Asked at least ten times a second by who waits; true ends that with -EINTR.
struct interrupt {
    bool (*wanted)(void *context); // NULL: never
    void *context;
};

struct connection {
    int socket;  // -1: closed
    pid_t owner; // who opened it: in a child of a fork it is not to be shut down
    char *path;  // of the socket
    struct interrupt interrupt;
    struct frame_reader reader;
    struct frame_writer writer;
    struct codec_arena arena;
};

uint64_t deadline_after_ms(int64_t timeout_ms); // negative: DEADLINE_NONE, 0: DEADLINE_NOW

// The socket to use: `path` if given, else $FEEDD_SOCKET, else the default.
const char *connection_socket_path(const char *path);

bool interrupt_wanted(struct interrupt interrupt);

// Connects and says hello. On failure `session` is as after session_close. The interrupt stays the session's.
int connection_open(struct connection *connection, const char *path, const char *client_name,
                    struct interrupt interrupt, uint64_t deadline, struct error *error);
void connection_close(struct connection *connection);

// Queues a message and sends what the socket takes. 0, also when some of it has to wait for the socket (the
// next receive or send goes on with it), or -ENOBUFS when the daemon has not been reading for long. A broken
// connection is no error here: what the daemon said last comes with the next receive.
int connection_send(struct connection *connection, const Feedd__ClientMessage *message);

// The next message, valid until the next receive: 1, 0 none by the deadline, or the connection is unusable:
// -ECONNRESET the daemon went away, -EPROTO it sent what is no message or a descriptor with a message other
// than Attached; or -EINTR, and it is as it was.
int connection_receive(struct connection *connection, const Feedd__ServerMessage **message, uint64_t deadline,
                       struct error *error);

// Fills `error` from the daemon's Error message; returns its code, negative.
int connection_refusal(const Feedd__Error *message, struct error *error);

#endif
