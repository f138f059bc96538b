#include "daemon/supervisor/clients/messages.h"

#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "daemon/supervisor/clients/attach.h"
#include "daemon/supervisor/clients/bring.h"
#include "daemon/supervisor/clients/index_command.h"
#include "daemon/supervisor/clients/loaders_command.h"
#include "daemon/supervisor/clients/query.h"
#include "daemon/supervisor/clients/tracing.h"
#include "daemon/supervisor/feeds/feed_clock.h"
#include "daemon/supervisor/feeds/pool.h"
#include "shm/stats.h"

#define CLIENT_BODIES 8

// A name chosen by a client: made printable and bounded, fit for a log line.
static void copy_name(char *to, size_t bytes, const char *from) {
    size_t used = 0;
    for (; *from && used + 1 < bytes; from++)
        to[used++] = *from > ' ' && *from < 127 ? *from : '_';
    to[used] = 0;
}

static void handle_hello(struct session *session, const Feedd__ClientMessage *message) {
    const Feedd__Hello *hello = message->hello;
    if (hello->version != PROTO_VERSION) {
        session_fail(session, -EPROTO,
                     "the client speaks version %" PRIu32 " of the protocol, this daemon %u", hello->version,
                     PROTO_VERSION);
        return;
    }
    if (*hello->client_name)
        copy_name(session->name, sizeof session->name, hello->client_name);
    session_set_state(session, SESSION_GREETED);
    Feedd__Welcome welcome = FEEDD__WELCOME__INIT;
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    welcome.version = PROTO_VERSION;
    welcome.daemon_version = (char *)FEEDD_VERSION;
    welcome.pid = (uint64_t)getpid();
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_WELCOME;
    frame.welcome = &welcome;
    session_send(session, &frame.base);
}

static void handle_attach(struct session *session, const Feedd__ClientMessage *message) {
    session->postponed = !attach_session(session, message->attach);
}

// A question that comes too soon is still answered; later ones wait for the tick.
static void count_question(struct session *session) {
    if (!user_may_ask(session->user, monotonic_ns()))
        session_throttle(session);
}

static void handle_bring(struct session *session, const Feedd__ClientMessage *message) {
    count_question(session);
    session->postponed = !bring_view(session, message->bring);
}

static void handle_piece(struct session *session, const Feedd__ClientMessage *message) {
    if (!session->supervisor->pieces_left) {
        session->deferred = true;
        return;
    }
    session->supervisor->pieces_left--;
    session->postponed = !bring_piece(session, message->piece);
}

static void handle_release(struct session *session, const Feedd__ClientMessage *message) {
    const Feedd__Release *release = message->release;
    struct member *member = &session->member;
    struct consumer *consumer = &member->consumer;
    struct delivery *delivery = member_delivery(member);
    const uint64_t now = monotonic_ns();
    served_feed_mark(member->feed);
    served_feed_gathered(member->feed, member); // it knows its place
    for (size_t i = 0; i < release->n_slots; i++) {
        const uint64_t granted_ns = feed_clock_granted_ns(delivery, consumer, release->slots[i]);
        if (delivery_release(delivery, consumer, release->slots[i]) == 0) {
            feed_clock_released(member, release->slots[i], granted_ns, now);
            continue;
        }
        stats_add(&member->feed->stats->counters[FEED_consumers_detached], 1);
        session_fail(session, -EPROTO, "slot %" PRIu32 " was released, which this consumer does not hold",
                     release->slots[i]);
        return;
    }
    // A consumer that holds all it may is not waiting for us, whatever it says; believing it would let it hold up the
    // others indefinitely.
    if (release->waiting && !consumer->waiting_since_ns && !consumer_at_end(consumer) &&
        consumer->held_count < consumer->prefetch)
        feed_clock_wait_begins(consumer, now);
}

static void handle_query(struct session *session, const Feedd__ClientMessage *message) {
    count_question(session);
    query_answer(session, message->query);
}

static void handle_command(struct session *session, const Feedd__ClientMessage *message) {
    struct supervisor *supervisor = session->supervisor;
    if (!session->index.round) // else this is the same question again
        count_question(session);
    if (!session->trusted) {
        session_refuse(session, -EPERM, "only root and the daemon's own user may do that");
        return;
    }
    switch (message->command->kind) {
    case FEEDD__COMMAND__KIND__RELOAD:
        if (supervisor->reload || supervisor->reload_wanted) {
            session_refuse(session, -EBUSY,
                           supervisor->reload_given_up
                               ? "an earlier reload still waits for its files; see the daemon's log"
                               : "a reload is already under way");
            return;
        }
        supervisor->reload_asker = session->id;
        supervisor->reload_wanted = true;
        return;
    case FEEDD__COMMAND__KIND__INDEX:
        session->postponed = !index_command(session, message->command->name);
        return;
    case FEEDD__COMMAND__KIND__TRACE:
        tracing_begin(session);
        return;
    case FEEDD__COMMAND__KIND__LOADERS:
        loaders_command(session, message->command->name, message->command->count);
        return;
    case FEEDD__COMMAND__KIND__DRAIN:
        supervisor_drain(supervisor);
        session_done(session, "feedd accepts no new consumers and stops when the last one has left");
        return;
    default:
        session_refuse(session, -EINVAL, "this daemon does not know that command");
    }
}

static const struct {
    const char *name;
    uint8_t states; // in which it is allowed, as bits
    void (*handle)(struct session *session, const Feedd__ClientMessage *message);
} operations[CLIENT_BODIES] = {
    [FEEDD__CLIENT_MESSAGE__BODY_HELLO] = {"hello", 1 << SESSION_NEW, handle_hello},
    [FEEDD__CLIENT_MESSAGE__BODY_ATTACH] = {"attach", 1 << SESSION_GREETED, handle_attach},
    [FEEDD__CLIENT_MESSAGE__BODY_RELEASE] = {"release", 1 << SESSION_ATTACHED, handle_release},
    [FEEDD__CLIENT_MESSAGE__BODY_QUERY] = {"query", 1 << SESSION_GREETED | 1 << SESSION_ATTACHED,
                                           handle_query},
    [FEEDD__CLIENT_MESSAGE__BODY_COMMAND] = {"command", 1 << SESSION_GREETED, handle_command},
    [FEEDD__CLIENT_MESSAGE__BODY_BRING] = {"bring", 1 << SESSION_GREETED, handle_bring},
    [FEEDD__CLIENT_MESSAGE__BODY_PIECE] = {"piece", 1 << SESSION_BRINGING, handle_piece},
};

void messages_handle(struct session *session, const Feedd__ClientMessage *message) {
    uint32_t body = (uint32_t)message->body_case;
    if (body >= CLIENT_BODIES || !operations[body].handle) {
        session_fail(session, -EPROTO, "received a message that this daemon does not know");
        return;
    }
    if (!(operations[body].states >> session->state & 1)) {
        session_fail(session, -EPROTO, "%s is out of order in a session that is %s", operations[body].name,
                     session_state_name(session->state));
        return;
    }
    operations[body].handle(session, message);
}
