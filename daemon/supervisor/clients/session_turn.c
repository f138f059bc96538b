#include "daemon/supervisor/clients/session_turn.h"

#include "base/time.h"
#include "daemon/supervisor/clients/bring.h"
#include "daemon/supervisor/clients/messages.h"
#include "daemon/supervisor/feeds/places.h"

#define MESSAGES_AT_ONCE 32u            // per session; then others get their turn
#define CLOSING_MOST_NS  (1 * NS_PER_S) // for the client to read why its session ends

// Handles the next message. False: there is none, or the session no longer handles messages.
static bool handle_next(struct session *session) {
    const uint8_t *bytes;
    size_t count;
    if (session->state >= SESSION_CLOSING || session->hung_up || session->throttled)
        return false;
    int found = frame_next(&session->reader, &bytes, &count);
    if (found == -EMSGSIZE)
        session_fail(session, -EMSGSIZE, "a message of %zu bytes or more was announced; the maximum is %u",
                     (size_t)PROTO_MAX_MESSAGE + 1, PROTO_MAX_MESSAGE);
    if (found <= 0)
        return false; // not complete yet, or cut off because the client has gone
    const Feedd__ClientMessage *message = codec_unpack_client(&session->supervisor->arena, bytes, count);
    session->postponed = session->deferred = false;
    if (message)
        messages_handle(session, message);
    else if (!codec_has_memory(&session->supervisor->arena))
        session_fail(session, -ENOMEM, "feedd is out of memory");
    else
        session_fail(session, -EPROTO, "a message of %zu bytes is not one that this daemon knows", count);
    if (session->postponed || session->deferred)
        frame_put_back(&session->reader, count);
    if (session->postponed)
        session_throttle(session);
    return !session->deferred;
}

static void handle_some(struct session *session) {
    uint32_t handled = 0;
    session->deferred = false;
    while (handled < MESSAGES_AT_ONCE && handle_next(session))
        handled++;
    if (handled == MESSAGES_AT_ONCE || session->deferred) {
        session->supervisor->again = true;
        session_mark(session);
    } else if (session->ended && !session->throttled) {
        session_close(session);
    }
}

void session_act(struct session *session) {
    if (session->readable && !session->throttled && session->state < SESSION_CLOSING)
        session_receive(session);
    handle_some(session);
    bring_act(session);
    if (session->hung_up)
        session_close(session);
    if (session->state >= SESSION_CLOSING) {
        places_leave(&session->member);
        bring_leave(session);
    }
    if (session->state == SESSION_CLOSED)
        mark_set(&session->supervisor->closed_sessions, &session->over);
}

void session_tick(struct session *session, uint64_t now) {
    session_unthrottle(session);
    if (session->state == SESSION_NEW && now > session->opened_ns + PROTO_HELLO_TIMEOUT_MS * NS_PER_MS)
        session_fail(session, -ETIMEDOUT, "no Hello arrived within %u ms", PROTO_HELLO_TIMEOUT_MS);
    else if (session->state == SESSION_CLOSING && now > session->closing_since_ns + CLOSING_MOST_NS)
        session_close(session);
}
