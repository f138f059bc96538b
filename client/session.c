#include "client/session.h"

#include <poll.h>
#include <string.h>
#include <time.h>

#define NS_PER_S     UINT64_C(1000000000)
#define ASK_EVERY_NS (NS_PER_S / 10) // whether a wait is to be interrupted

uint64_t deadline_after_ms(int64_t timeout_ms) {
    if (timeout_ms <= 0)
        return timeout_ms < 0 ? DEADLINE_NONE : DEADLINE_NOW;
    return monotonic_ns() + (uint64_t)timeout_ms * 1000000u;
}

int session_send(struct session *session, const Feedd__ClientMessage *message) {
    int queued = codec_send(&session->writer, &message->base, SESSION_UNSENT);
    if (queued < 0)
        return queued;
    frame_flush(&session->writer, session->socket);
    return 0;
}

bool interrupt_wanted(struct interrupt interrupt) {
    return interrupt.wanted && interrupt.wanted(interrupt.context);
}

// For how long to wait at once; false once the deadline has passed.
static bool time_left(const struct session *session, uint64_t deadline, struct timespec *left) {
    uint64_t now = monotonic_ns();
    if (now >= deadline)
        return false;
    uint64_t wait = min_u64(deadline - now, session->interrupt.wanted ? ASK_EVERY_NS : UINT64_MAX);
    *left = (struct timespec){(time_t)(wait / NS_PER_S), (long)(wait % NS_PER_S)};
    return true;
}

// 1 look again, 0 the deadline has passed, or -EINTR. An errno of poll (EINTR, ENOMEM) only makes us look once more.
static int wait_for_socket(struct session *session, uint64_t deadline) {
    struct pollfd poll_for = {.fd = session->socket, .events = POLLIN};
    if (frame_pending(&session->writer) > 0)
        poll_for.events |= POLLOUT;
    struct timespec left;
    if (!time_left(session, deadline, &left))
        return 0;
    if (ppoll(&poll_for, 1, &left, NULL) > 0 && (poll_for.revents & POLLOUT))
        frame_flush(&session->writer, session->socket);
    return interrupt_wanted(session->interrupt) ? -EINTR : 1;
}

static int lost(struct session *session, struct error *error) {
    return error_set(error, -ECONNRESET,
                     "feedd on %s closed the connection without a word: it was stopped, restarted or killed",
                     session->path);
}

// 1 bytes arrived, 0 none there.
static int fill(struct session *session, struct error *error) {
    ssize_t got = frame_read(&session->reader, session->socket);
    if (got > 0)
        return 1;
    if (got == -EAGAIN)
        return 0;
    if (got == 0 || got == -ECONNRESET || got == -EPIPE)
        return lost(session, error);
    if (got == -EPROTO)
        return error_set(error, -EPROTO, "what listens on %s is no feedd: it sent too many descriptors",
                         session->path);
    return error_set(error, (int)got, "cannot read from feedd on %s: %s", session->path, strerror((int)-got));
}

static int decode(struct session *session, const uint8_t *bytes, size_t count,
                  const Feedd__ServerMessage **message, struct error *error) {
    *message = codec_unpack_server(&session->arena, bytes, count);
    if (!*message)
        return error_set(error, -EPROTO, "feedd on %s sent %zu bytes that are no message this client knows",
                         session->path, count);
    uint32_t wanted = 0;
    if ((*message)->body_case == FEEDD__SERVER_MESSAGE__BODY_ATTACHED)
        wanted = (*message)->attached->pool_bytes ? 3 : 1;
    if (session->reader.fd_count != wanted)
        return error_set(error, -EPROTO, "feedd on %s sent %u descriptors with a message that takes %u",
                         session->path, session->reader.fd_count, wanted);
    return 1;
}

int session_receive(struct session *session, const Feedd__ServerMessage **message, uint64_t deadline,
                    struct error *error) {
    for (;;) {
        const uint8_t *bytes;
        size_t count;
        int next = frame_next(&session->reader, &bytes, &count);
        if (next == 1)
            return decode(session, bytes, count, message, error);
        if (session->reader.closed)
            return lost(session, error);
        if (next < 0)
            return error_set(error, -EPROTO,
                             "what listens on %s is no feedd: its frame is longer than %u bytes",
                             session->path, PROTO_MAX_MESSAGE);
        int filled = fill(session, error);
        if (filled < 0)
            return filled;
        int waited = filled || deadline == DEADLINE_NOW ? filled : wait_for_socket(session, deadline);
        if (waited < 0)
            return error_set(error, waited, "waiting for feedd on %s was interrupted", session->path);
        if (waited == 0)
            return 0;
    }
}

int session_refusal(const Feedd__Error *message, struct error *error) {
    int code = message->code > 0 && message->code < 4096 ? message->code : EPROTO;
    if (*message->text)
        return error_set(error, -code, "%s", message->text);
    return error_set(error, -code, "feedd says: %s", strerror(code));
}
