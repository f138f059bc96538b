#include "daemon/supervisor/clients/session.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/scope.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/pool.h"

// Unsent bytes that a client may let pile up. What it is sent is bounded by its own credits and questions; more than
// this means that it does not read.
#define UNSENT_MOST (256u << 10)
#define READS_MOST  4u // at a time; others get their turn before the rest of a flood

static const char *const state_names[SESSION_STATES] = {"new",      "greeted", "attaching",
                                                        "attached", "closing", "closed"};

const char *session_state_name(enum session_state state) {
    return state < SESSION_STATES ? state_names[state] : "?";
}

void session_set_state(struct session *session, enum session_state state) {
    static const uint8_t allowed[SESSION_STATES] = {
        [SESSION_NEW] = 1 << SESSION_GREETED | 1 << SESSION_CLOSING | 1 << SESSION_CLOSED,
        [SESSION_GREETED] =
            1 << SESSION_ATTACHING | 1 << SESSION_ATTACHED | 1 << SESSION_CLOSING | 1 << SESSION_CLOSED,
        [SESSION_ATTACHING] = 1 << SESSION_ATTACHED | 1 << SESSION_CLOSING | 1 << SESSION_CLOSED,
        [SESSION_ATTACHED] = 1 << SESSION_CLOSING | 1 << SESSION_CLOSED,
        [SESSION_CLOSING] = 1 << SESSION_CLOSED,
        [SESSION_CLOSED] = 0,
    };
    assert(allowed[session->state] >> state & 1);
    session->state = state;
}

struct delivery *session_delivery(const struct session *session) {
    return session->pool ? &session->pool->delivery : &session->feed->delivery;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void ask_for(struct session *session, int events) {
    if (session->polled == events)
        return;
    session->polled = events;
    uv_poll_start(&session->poll, events, on_poll);
}

// ---- Sending -----------------------------------------------------------------------------------------------

// Ends the connection from here. The session itself is closed when its own poll reports the end of file, so
// that nobody who is walking a list of sessions loses one under his feet.
static void cut_off(struct session *session) {
    session->cut = true;
    shutdown(session->fd, SHUT_RDWR);
}

void session_send(struct session *session, const ProtobufCMessage *message) {
    if (session->state == SESSION_CLOSED || session->cut)
        return;
    int err = codec_send(&session->writer, message, UNSENT_MOST);
    if (!err)
        return;
    log_warning("session %" PRIu64 " (%s, process %d): %s; it is cut off", session->id, session->name,
                (int)session->peer.pid,
                err == -ENOBUFS ? "it does not read what it is sent" : "a message cannot be sent");
    cut_off(session);
}

void session_flush(struct session *session) {
    if (session->state == SESSION_CLOSED || !frame_pending(&session->writer))
        return;
    int err = frame_flush(&session->writer, session->fd);
    if (err == -EAGAIN) {
        ask_for(session, UV_READABLE | UV_WRITABLE);
        return;
    }
    if (err || session->state == SESSION_CLOSING)
        cut_off(session);
    ask_for(session, UV_READABLE);
}

void session_refuse(struct session *session, int code, const char *text) {
    Feedd__Error error = FEEDD__ERROR__INIT;
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    error.code = -code;
    error.text = (char *)text;
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_ERROR;
    frame.error = &error;
    session_send(session, &frame.base);
}

void session_fail(struct session *session, int code, const char *format, ...) {
    char text[sizeof((struct error *)0)->text];
    va_list arguments;
    if (session->state >= SESSION_CLOSING)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_info("session %" PRIu64 " (%s, process %d) is ended: %s", session->id, session->name,
             (int)session->peer.pid, text);
    session_set_state(session, SESSION_CLOSING);
    session->closing_since_ns = monotonic_ns();
    session_refuse(session, code, text);
    session_flush(session);
    feed_forget(session);
    if (session->feed)
        feed_leave(session->feed, session);
}

// ---- Receiving ---------------------------------------------------------------------------------------------

static void handle_frames(struct session *session) {
    const uint8_t *bytes;
    size_t count;
    int found;
    while (session->state < SESSION_CLOSING && !session->cut &&
           (found = frame_next(&session->reader, &bytes, &count)) != 0) {
        if (found == -EMSGSIZE) {
            session_fail(session, -EMSGSIZE, "a message of %zu bytes or more was announced; the most is %u",
                         (size_t)PROTO_MAX_MESSAGE + 1, PROTO_MAX_MESSAGE);
            return;
        }
        if (found < 0)
            return; // torn by the peer's end: session_close follows
        const Feedd__ClientMessage *message = codec_unpack_client(&session->supervisor->arena, bytes, count);
        if (!message) {
            session_fail(session, -EPROTO, "a message of %zu bytes is none that this daemon knows", count);
            return;
        }
        session_handle(session, message);
    }
}

static void on_readable(struct session *session) {
    for (uint32_t i = 0; i < READS_MOST; i++) {
        ssize_t count = frame_read(&session->reader, session->fd);
        // Once: the end of file that follows has to be seen.
        if (session->reader.fd_count && session->state < SESSION_CLOSING) {
            session_fail(session, -EPROTO, "a descriptor came with a message; clients send none");
            return;
        }
        if (count == -EAGAIN)
            return;
        handle_frames(session);
        if (count <= 0) {
            session_close(session);
            return;
        }
        if (session->state >= SESSION_CLOSING) {
            session->reader.start = session->reader.end =
                0; // nothing more is of interest; the end of file is
            return;
        }
    }
}

static void on_poll(uv_poll_t *poll, int status, int events) {
    struct session *session = poll->data;
    if (status < 0) {
        session_close(session);
        return;
    }
    if (events & (UV_READABLE | UV_DISCONNECT))
        on_readable(session);
    if (session->state == SESSION_CLOSED)
        return;
    if (session->feed)
        feed_pump(session->feed);
    session_flush(session);
}

// ---- Opening and closing -----------------------------------------------------------------------------------

int session_open(struct supervisor *supervisor, int fd, const struct ucred *peer) {
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return -ENOMEM;
    session->supervisor = supervisor;
    session->id = ++supervisor->next_session;
    session->fd = fd;
    session->words_fd = -1;
    session->peer = *peer;
    session->opened_ns = monotonic_ns();
    snprintf(session->name, sizeof session->name, "unnamed");
    int err = uv_poll_init(&supervisor->loop, &session->poll, fd);
    if (err) {
        free(session);
        return err;
    }
    session->poll.data = session;
    LIST_INSERT_HEAD(&supervisor->sessions, session, link);
    supervisor->session_count++;
    ask_for(session, UV_READABLE);
    return 0;
}

static void on_closed(uv_handle_t *handle) {
    struct session *session = handle->data;
    struct supervisor *supervisor = session->supervisor;
    close_fd(&session->fd);
    frame_reader_free(&session->reader);
    frame_writer_free(&session->writer);
    free(session);
    supervisor_check_done(supervisor);
}

void session_close(struct session *session) {
    if (session->state == SESSION_CLOSED)
        return;
    session_set_state(session, SESSION_CLOSED);
    feed_forget(session);
    if (session->feed)
        feed_leave(session->feed, session);
    LIST_REMOVE(session, link);
    session->supervisor->session_count--;
    uv_close((uv_handle_t *)&session->poll, on_closed);
}
