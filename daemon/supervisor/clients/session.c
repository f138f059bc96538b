#include "daemon/supervisor/clients/session.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/sentence.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/supervisor/clients/tracing.h"
#include "daemon/supervisor/closer.h"
#include "daemon/trusted.h"

// Unsent bytes that a client may let pile up. Its own credits and questions bound what it is sent, so more than this
// means that it does not read.
#define UNSENT_MOST (256u << 10)

static const struct state states[] = {
    [SESSION_NEW] = {"new", STATE(SESSION_GREETED) | STATE(SESSION_CLOSING) | STATE(SESSION_CLOSED)},
    [SESSION_GREETED] = {"greeted", STATE(SESSION_BRINGING) | STATE(SESSION_ATTACHING) |
                                        STATE(SESSION_CLOSING) | STATE(SESSION_CLOSED)},
    [SESSION_BRINGING] = {"bringing a view",
                          STATE(SESSION_GREETED) | STATE(SESSION_CLOSING) | STATE(SESSION_CLOSED)},
    [SESSION_ATTACHING] = {"attaching",
                           STATE(SESSION_ATTACHED) | STATE(SESSION_CLOSING) | STATE(SESSION_CLOSED)},
    [SESSION_ATTACHED] = {"attached", STATE(SESSION_CLOSING) | STATE(SESSION_CLOSED)},
    [SESSION_CLOSING] = {"closing", STATE(SESSION_CLOSED)},
    [SESSION_CLOSED] = {"closed", 0},
};
static const struct state_table table = STATE_TABLE("session", states);

const char *session_state_name(enum session_state state) {
    return state_name(&table, state);
}

void session_set_state(struct session *session, enum session_state state) {
    session->state = (enum session_state)state_next(&table, session->state, state);
    user_stop_waiting(session->user, &session->feed_wait);
}

void session_mark(struct session *session) {
    mark_set(&session->supervisor->marked_sessions, &session->mark);
}

// ---- Sending -----------------------------------------------------------------------------------------------

static void hang_up(struct session *session) {
    session->hung_up = true;
    session_mark(session);
}

// Sending to it or receiving from it failed. If that is not because it has left, it may still use what it holds.
static void note_failure(struct session *session, int err) {
    struct pollfd peer = {.fd = session->fd};
    if (poll(&peer, 1, 0) > 0 && peer.revents & POLLHUP)
        return;
    session->member.dropped = true;
    if (user_may_log(session->user, monotonic_ns()))
        log_warning("session %" PRIu64 " (%s, process %d): its connection failed: %s; disconnecting it",
                    session->id, session->name, (int)session->peer.pid, strerror(-err));
}

void session_send(struct session *session, const ProtobufCMessage *message) {
    if (session->hung_up)
        return;
    int err = codec_send(&session->writer, message, UNSENT_MOST);
    if (!err) {
        mark_set(&session->supervisor->unsent_sessions, &session->unsent);
        return;
    }
    log_warning("session %" PRIu64 " (%s, process %d): %s; disconnecting it", session->id, session->name,
                (int)session->peer.pid,
                err == -ENOBUFS ? "it does not read what it is sent" : "a message cannot be sent");
    session->member.dropped = true;
    hang_up(session);
}

void session_flush(struct session *session) {
    if (session->hung_up)
        return;
    int err = frame_pending(&session->writer) ? frame_flush(&session->writer, session->fd) : 0;
    uint32_t reading = session->throttled || session->state >= SESSION_CLOSING ? 0 : EPOLLIN;
    poll_set_change(&session->poll, err == -EAGAIN ? reading | EPOLLOUT : reading);
    if (err == -EAGAIN)
        return;
    if (err)
        note_failure(session, err);
    if (err || session->state == SESSION_CLOSING)
        hang_up(session);
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

void session_done(struct session *session, const char *text) {
    Feedd__Done done = FEEDD__DONE__INIT;
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    done.text = (char *)text;
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_DONE;
    frame.done = &done;
    session_send(session, &frame.base);
}

void session_fail(struct session *session, int code, const char *format, ...) {
    char text[sizeof((struct error *)0)->text];
    va_list arguments;
    uint64_t now = monotonic_ns();
    if (session->state >= SESSION_CLOSING)
        return;
    va_start(arguments, format);
    sentence_format(text, sizeof text, format, arguments);
    va_end(arguments);
    if (user_may_log(session->user, now))
        log_info("ending session %" PRIu64 " (%s, process %d): %s", session->id, session->name,
                 (int)session->peer.pid, text);
    session_refuse(session, code, text);
    // The others have made a mistake.
    session->member.dropped =
        session->member.failed || code == -ENOMEM || session->supervisor->state != SUPERVISOR_RUNNING;
    session_set_state(session, SESSION_CLOSING);
    session->closing_since_ns = now;
    session_mark(session);
}

// ---- Receiving ---------------------------------------------------------------------------------------------

void session_receive(struct session *session) {
    session->readable = false;
    ssize_t count = frame_read(&session->reader, session->fd);
    if (session->reader.fd_count) { // not read any further: there may be more of them
        closer_take(session->supervisor->closer, session->peer.uid, session->reader.fds,
                    &session->reader.fd_count);
        session_fail(session, -EPROTO, "a descriptor came with a message; clients send none");
        return;
    }
    session->ended = count == 0 || (count < 0 && count != -EAGAIN && count != -ENOBUFS);
    if (session->ended && count < 0)
        note_failure(session, (int)count);
}

void session_throttle(struct session *session) {
    session->throttled = true;
    poll_set_change(&session->poll, session->poll.events & ~(uint32_t)EPOLLIN);
}

void session_unthrottle(struct session *session) {
    if (!session->throttled)
        return;
    session->throttled = false;
    if (session->state == SESSION_CLOSING) // reads nothing any more
        return;
    poll_set_change(&session->poll, session->poll.events | EPOLLIN);
    session_mark(session);
}

static void on_ready(struct poll_entry *entry, uint32_t events) {
    struct session *session = CONTAINER_OF(entry, struct session, poll);
    if (events & EPOLLOUT)
        mark_set(&session->supervisor->unsent_sessions, &session->unsent);
    if (events & (EPOLLHUP | EPOLLERR) && !(session->poll.events & EPOLLIN))
        hang_up(session); // the client does not wait for what is still unsent
    else if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        session->readable = true;
        session_mark(session);
    }
}

// ---- Opening and closing -----------------------------------------------------------------------------------

struct session *session_open(struct supervisor *supervisor, int fd, const struct ucred *peer) {
    uint64_t now = monotonic_ns();
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->user = user_get(supervisor, peer->uid, now);
    if (!session->user || poll_set_add(&supervisor->poll_set, &session->poll, fd, EPOLLIN, on_ready) < 0) {
        if (session->user)
            user_put(session->user);
        free(session);
        return NULL;
    }
    session->supervisor = supervisor;
    session->id = ++supervisor->next_session;
    session->fd = fd;
    session->peer = *peer;
    session->trusted = user_is_trusted(peer->uid);
    session->opened_ns = now;
    member_init(&session->member, NULL);
    session->member.process = (uint32_t)peer->pid;
    snprintf(session->name, sizeof session->name, "unnamed");
    TAILQ_INSERT_TAIL(&supervisor->sessions, session, link);
    supervisor->session_count++;
    return session;
}

void session_close(struct session *session) {
    if (session->state == SESSION_CLOSED)
        return;
    session_set_state(session, SESSION_CLOSED);
    session->hung_up = true;
    session_mark(session);
}

static void free_session(struct session *session) {
    struct supervisor *supervisor = session->supervisor;
    tracing_end(session);
    mark_clear(&supervisor->marked_sessions, &session->mark);
    mark_clear(&supervisor->unsent_sessions, &session->unsent);
    TAILQ_REMOVE(&supervisor->sessions, session, link);
    supervisor->session_count--;
    user_put(session->user);
    poll_set_remove(&session->poll);
    closer_take_socket(supervisor->closer, session->peer.uid, &session->fd);
    peer_groups_free(&session->groups);
    frame_reader_free(&session->reader);
    frame_writer_free(&session->writer);
    free(session);
}

void sessions_free(struct supervisor *supervisor) {
    struct mark *mark;
    while ((mark = mark_take(&supervisor->closed_sessions)))
        free_session(CONTAINER_OF(mark, struct session, over));
}
