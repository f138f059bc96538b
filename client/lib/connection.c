#include "client/lib/connection.h"

#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/sizes.h"

#define ASK_EVERY_NS (NS_PER_S / 10) // whether a wait is to be interrupted

uint64_t deadline_after_ms(int64_t timeout_ms) {
    if (timeout_ms <= 0)
        return timeout_ms < 0 ? DEADLINE_NONE : DEADLINE_NOW;
    return monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

int connection_send(struct connection *connection, const Feedd__ClientMessage *message) {
    int queued = codec_send(&connection->writer, &message->base, CONNECTION_UNSENT);
    if (queued < 0)
        return queued;
    frame_flush(&connection->writer, connection->socket);
    return 0;
}

bool interrupt_wanted(struct interrupt interrupt) {
    return interrupt.wanted && interrupt.wanted(interrupt.context);
}

// For how long to wait at once; false once the deadline has passed.
static bool time_left(const struct connection *connection, uint64_t deadline, struct timespec *left) {
    uint64_t now = monotonic_ns();
    if (now >= deadline)
        return false;
    uint64_t wait = min_u64(deadline - now, connection->interrupt.wanted ? ASK_EVERY_NS : UINT64_MAX);
    *left = (struct timespec){(time_t)(wait / NS_PER_S), (long)(wait % NS_PER_S)};
    return true;
}

// 1 look again, 0 the deadline has passed, or -EINTR. An errno of poll (EINTR, ENOMEM) only makes us look once more.
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
    return error_set(error, -ECONNRESET,
                     "feedd on %s closed the connection without a word: it was stopped, restarted or killed",
                     connection->path);
}

// 1 bytes arrived, 0 none there.
static int fill(struct connection *connection, struct error *error) {
    ssize_t got = frame_read(&connection->reader, connection->socket);
    if (got > 0)
        return 1;
    if (got == -EAGAIN)
        return 0;
    if (got == 0 || got == -ECONNRESET || got == -EPIPE)
        return lost(connection, error);
    if (got == -EPROTO)
        return error_set(error, -EPROTO, "what listens on %s is no feedd: it sent too many descriptors",
                         connection->path);
    return error_set(error, (int)got, "cannot read from feedd on %s: %s", connection->path,
                     strerror((int)-got));
}

static int decode(struct connection *connection, const uint8_t *bytes, size_t count,
                  const Feedd__ServerMessage **message, struct error *error) {
    *message = codec_unpack_server(&connection->arena, bytes, count);
    if (!*message)
        return error_set(error, -EPROTO, "feedd on %s sent %zu bytes that are no message this client knows",
                         connection->path, count);
    uint32_t wanted = 0;
    if ((*message)->body_case == FEEDD__SERVER_MESSAGE__BODY_ATTACHED)
        wanted = (*message)->attached->pool_bytes ? 3 : 1;
    if (connection->reader.fd_count != wanted)
        return error_set(error, -EPROTO, "feedd on %s sent %u descriptors with a message that takes %u",
                         connection->path, connection->reader.fd_count, wanted);
    return 1;
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
                             "what listens on %s is no feedd: its frame is longer than %u bytes",
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

int connection_refusal(const Feedd__Error *message, struct error *error) {
    int err = message->code > 0 && message->code < 4096 ? message->code : EPROTO;
    if (*message->text)
        return error_set(error, -err, "%s", message->text);
    return error_set(error, -err, "feedd says: %s", strerror(err));
}
