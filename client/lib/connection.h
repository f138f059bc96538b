// A connection to feedd: hello, then messages in both directions, with deadlines. libfeed's handles and feedctl's
// queries are built on it.
#ifndef FEEDD_CLIENT_LIB_CONNECTION_H
#define FEEDD_CLIENT_LIB_CONNECTION_H

#include <sys/types.h>

#include "base/error.h"
#include "client/lib/waiting.h"
#include "proto/codec.h"

struct connection {
    int socket;  // -1: closed
    pid_t owner; // the process that opened it: a forked child must not shut it down
    char *path;  // of the socket
    struct interrupt interrupt;
    uint64_t alive_ns; // when the daemon was last found to have said nothing more, so that the session lived
    struct frame_reader reader;
    struct frame_writer writer;
    struct codec_arena arena;
};

// Connects and says hello. On failure `connection` is as after connection_close. The interrupt stays with the
// connection.
int connection_open(struct connection *connection, const char *path, const char *client_name,
                    struct interrupt interrupt, uint64_t deadline, struct error *error);
void connection_close(struct connection *connection);

// Queues a message and sends what the socket takes. 0, also if some of it has to wait for the socket (the next
// receive or send continues), or -ENOBUFS when the daemon has not been reading for long. A broken connection is not
// an error here: the next receive returns what the daemon said last.
int connection_send(struct connection *connection, const Feedd__ClientMessage *message);

// Sends what is queued. 1: all of it; 0: the daemon has said something, which connection_receive returns; or
// -ETIMEDOUT, -EINTR and what connection_receive returns of a connection that is unusable.
int connection_drain(struct connection *connection, uint64_t deadline, struct error *error);

// The next message, valid until the next receive: 1, or 0 if none arrived by the deadline. The connection is unusable
// after -ECONNRESET (the daemon went away) and -EPROTO (it sent something that is not a message, or a descriptor with a
// message other than Attached and SlotMemory), but unchanged after -EINTR.
int connection_receive(struct connection *connection, const Feedd__ServerMessage **message, uint64_t deadline,
                       struct error *error);

// Fills `error` from the daemon's Error message; returns its code, negative.
int connection_refusal(const Feedd__Error *message, struct error *error);

#endif
