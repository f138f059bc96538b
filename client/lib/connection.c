#include "client/lib/connection.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/time.h"
#include "client/lib/connect.h"

#define UNSENT_MAX (4u * PROTO_MAX_MESSAGE) // bytes that may wait for the daemon to read

// ---- Messages ------------------------------------------------------------------------------------

int connection_send(struct connection *connection, const Feedd__ClientMessage *message) {
    int err = codec_send(&connection->writer, &message->base, UNSENT_MAX);
    if (err)
        return err;
    frame_flush(&connection->writer, connection->socket);
    return 0;
}

// How long the next wait may take; false once the deadline has passed.
static bool time_left(const struct connection *connection, uint64_t deadline, struct timespec *left) {
    uint64_t now = monotonic_ns();
    if (now >= deadline)
        return false;
    uint64_t wait = min_u64(deadline - now, connection->interrupt.wanted ? INTERRUPT_EVERY_NS : UINT64_MAX);
    *left = timespec_of_ns(wait);
    return true;
}

// 1 look again, 0 the deadline has passed, or -EINTR. If poll fails (EINTR, ENOMEM), we look once more.
static int wait_for_socket(struct connection *connection, uint64_t deadline) {
    struct pollfd poll_for = {.fd = connection->socket, .events = POLLIN};
    if (frame_pending(&connection->writer) > 0)
        poll_for.events |= POLLOUT;
    struct timespec left;
    if (!time_left(connection, deadline, &left))
        return 0;
    if (ppoll(&poll_for, 1, &left, NULL) > 0 && (poll_for.revents & POLLOUT))
        frame_flush(&connection->writer, connection->socket);
    return interrupt_wanted(connection->interrupt) ? -EINTR : 1;
}

static int lost(struct connection *connection, struct error *error) {
    return error_set(
        error, -ECONNRESET,
        "feedd on %s closed the connection without giving a reason: it was stopped, restarted or "
        "killed",
        connection->path);
}

// 1 bytes arrived, 0 none.
static int fill(struct connection *connection, struct error *error) {
    ssize_t got = frame_read(&connection->reader, connection->socket);
    if (got > 0)
        return 1;
    if (got == -EAGAIN) {
        connection->alive_ns = monotonic_ns();
        return 0;
    }
    if (got == 0 || got == -ECONNRESET || got == -EPIPE)
        return lost(connection, error);
    if (got == -EPROTO)
        return error_set(error, -EPROTO, "what listens on %s is not a feedd: it sent too many descriptors",
                         connection->path);
    return error_set(error, (int)got, "cannot read from feedd on %s: %s", connection->path,
                     strerror((int)-got));
}

static uint32_t descriptors_of(const Feedd__ServerMessage *message) {
    if (message->body_case == FEEDD__SERVER_MESSAGE__BODY_SLOT_MEMORY)
        return 1;
    if (message->body_case != FEEDD__SERVER_MESSAGE__BODY_ATTACHED)
        return 0;
    return (message->attached->pool_bytes ? 3 : 1) + (message->attached->window != NULL);
}

// Descriptors come with the first byte of their frame: what is more than this one takes belongs to one that follows.
static int check_descriptors(const struct connection *connection, const Feedd__ServerMessage *message,
                             struct error *error) {
    const struct frame_reader *reader = &connection->reader;
    const uint32_t wanted = descriptors_of(message);
    if (reader->fd_count == wanted || (reader->fd_count > wanted && reader->end > reader->start))
        return 1;
    return error_set(error, -EPROTO, "feedd on %s sent %u descriptors with a message that takes %u",
                     connection->path, reader->fd_count, wanted);
}

static int decode(struct connection *connection, const uint8_t *bytes, size_t count,
                  const Feedd__ServerMessage **message, struct error *error) {
    *message = codec_unpack_server(&connection->arena, bytes, count);
    if (!*message && !codec_has_memory(&connection->arena))
        return error_set(error, -ENOMEM, "out of memory");
    if (!*message)
        return error_set(error, -EPROTO,
                         "feedd on %s sent %zu bytes that are not a message this client knows",
                         connection->path, count);
    return check_descriptors(connection, *message, error);
}

int connection_receive(struct connection *connection, const Feedd__ServerMessage **message, uint64_t deadline,
                       struct error *error) {
    for (;;) {
        const uint8_t *bytes;
        size_t count;
        int next = frame_next(&connection->reader, &bytes, &count);
        if (next == 1)
            return decode(connection, bytes, count, message, error);
        if (connection->reader.closed)
            return lost(connection, error);
        if (next < 0)
            return error_set(error, -EPROTO,
                             "what listens on %s is not a feedd: its frame is longer than %u bytes",
                             connection->path, PROTO_MAX_MESSAGE);
        int filled = fill(connection, error);
        if (filled < 0)
            return filled;
        int waited = filled || deadline == DEADLINE_NOW ? filled : wait_for_socket(connection, deadline);
        if (waited < 0)
            return error_set(error, waited, "waiting for feedd on %s was interrupted", connection->path);
        if (waited == 0)
            return 0;
    }
}

int connection_drain(struct connection *connection, uint64_t deadline, struct error *error) {
    while (frame_pending(&connection->writer) > 0) {
        bool spoke = connection->reader.end > connection->reader.start;
        int filled = spoke ? 1 : fill(connection, error);
        if (filled)
            return filled < 0 ? filled : 0;
        int waited = wait_for_socket(connection, deadline);
        if (waited < 0)
            return error_set(error, waited, "sending to feedd on %s was interrupted", connection->path);
        if (waited == 0)
            return error_set(error, -ETIMEDOUT, "feedd on %s did not read what it was sent in time",
                             connection->path);
    }
    return 1;
}

int connection_refusal(const Feedd__Error *message, struct error *error) {
    int err = message->code > 0 && message->code < 4096 ? message->code : EPROTO;
    if (*message->text)
        return error_set(error, -err, "%s", message->text);
    return error_set(error, -err, "feedd says: %s", strerror(err));
}

// ---- Beginning and end ---------------------------------------------------------------------------

static int await_welcome(struct connection *connection, uint64_t deadline, struct error *error) {
    const Feedd__ServerMessage *answer;
    int got = connection_receive(connection, &answer, deadline, error);
    if (got < 0)
        return got;
    if (got == 0)
        return error_set(error, -ETIMEDOUT,
                         "feedd on %s accepted the connection but does not answer: it may hang",
                         connection->path);
    if (answer->body_case == FEEDD__SERVER_MESSAGE__BODY_ERROR)
        return connection_refusal(answer->error, error);
    if (answer->body_case != FEEDD__SERVER_MESSAGE__BODY_WELCOME)
        return error_set(error, -EPROTO, "what listens on %s is not a feedd: it did not say welcome",
                         connection->path);
    if (answer->welcome->version != PROTO_VERSION)
        return error_set(
            error, -EPROTO, "feedd %s on %s speaks protocol version %u, this client version %u: update one",
            answer->welcome->daemon_version, connection->path, answer->welcome->version, PROTO_VERSION);
    return 0;
}

static int say_hello(struct connection *connection, const char *client_name, uint64_t deadline,
                     struct error *error) {
    char name[PROTO_MAX_NAME + 1];
    snprintf(name, sizeof name, "%s", client_name);
    Feedd__Hello hello = FEEDD__HELLO__INIT;
    hello.version = PROTO_VERSION;
    hello.client_name = name;
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_HELLO;
    message.hello = &hello;
    int err = connection_send(connection, &message);
    if (err)
        return error_set(error, err, "cannot say hello to feedd on %s: %s", connection->path, strerror(-err));
    return await_welcome(connection, deadline, error);
}

int connection_open(struct connection *connection, const char *path, const char *client_name,
                    struct interrupt interrupt, uint64_t deadline, struct error *error) {
    *connection =
        (struct connection){.socket = -1, .owner = getpid(), .path = strdup(path), .interrupt = interrupt};
    int err = connection->path ? 0 : error_set(error, -ENOMEM, "out of memory");
    if (err == 0)
        err = connection->socket = connect_socket(path, interrupt, deadline, error);
    if (err >= 0)
        err = say_hello(connection, client_name, deadline, error);
    if (err < 0)
        connection_close(connection);
    return err;
}

void connection_close(struct connection *connection) {
    if (connection->socket >= 0) {
        // A forked child may have the descriptor too, and would keep the connection open.
        if (connection->owner == getpid())
            shutdown(connection->socket, SHUT_RDWR);
        close(connection->socket);
    }
    frame_reader_free(&connection->reader);
    frame_writer_free(&connection->writer);
    codec_arena_free(&connection->arena);
    free(connection->path);
    *connection = (struct connection){.socket = -1};
}
