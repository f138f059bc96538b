#include "daemon/supervisor/turn.h"

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/clients/session_turn.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/feed_turn.h"
#include "daemon/supervisor/feeds/prepared_loaders.h"
#include "daemon/supervisor/indexing.h"
#include "daemon/supervisor/reload.h"

// Acting on one object may mark others, which may mark others again: a release moves a feed, a failing feed ends its
// sessions, and these leave it. A few rounds settle that; if anything is left then, the next turn follows at once.
#define ROUNDS_MOST 8u

// Starting a process takes half a millisecond.
#define STARTS_PER_TURN 8u

// Taking one takes up to a tenth of a millisecond.
#define PIECES_PER_TURN 8u

static bool anything_marked(const struct supervisor *supervisor) {
    return supervisor->marked_sessions.count || supervisor->marked_devices.count ||
           supervisor->marked_feeds.count || supervisor->unsent_sessions.count;
}

// Acts once on each object that is marked now. Objects marked during that wait for the next round.
static void act_on_sessions(struct supervisor *supervisor) {
    for (uint32_t count = supervisor->marked_sessions.count; count > 0; count--) {
        struct session *session = CONTAINER_OF(mark_take(&supervisor->marked_sessions), struct session, mark);
        struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_SESSION, session->id);
        session_act(session);
        turn_clock_leave(&supervisor->clock, before);
    }
}

static void act_on_devices(struct supervisor *supervisor) {
    struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_DEVICE, 0);
    uint64_t now = monotonic_ns();
    for (uint32_t count = supervisor->marked_devices.count; count > 0; count--)
        device_act(CONTAINER_OF(mark_take(&supervisor->marked_devices), struct device, mark), now);
    turn_clock_leave(&supervisor->clock, before);
}

static void act_on_feeds(struct supervisor *supervisor) {
    for (uint32_t count = supervisor->marked_feeds.count; count > 0; count--) {
        struct served_feed *feed =
            CONTAINER_OF(mark_take(&supervisor->marked_feeds), struct served_feed, mark);
        struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_FEED, feed->id);
        feed_act(feed);
        turn_clock_leave(&supervisor->clock, before);
    }
}

static void flush(struct supervisor *supervisor) {
    struct mark *mark;
    while ((mark = mark_take(&supervisor->unsent_sessions))) {
        struct session *session = CONTAINER_OF(mark, struct session, unsent);
        struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_SEND, session->id);
        session_flush(session);
        turn_clock_leave(&supervisor->clock, before);
    }
}

void turn_run(struct supervisor *supervisor) {
    supervisor->again = false;
    supervisor->starts_left = STARTS_PER_TURN;
    supervisor->pieces_left = PIECES_PER_TURN;
    struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_RELOAD, 0);
    reload_act(supervisor);
    indexing_act(supervisor);
    turn_clock_leave(&supervisor->clock, before);
    // A session that has had its share ends the turn, so that others that have become ready go first.
    for (uint32_t round = 0; round < ROUNDS_MOST && anything_marked(supervisor) && !supervisor->again;
         round++) {
        act_on_sessions(supervisor); // first, since what they release and leave is what feeds move
        act_on_devices(supervisor);
        act_on_feeds(supervisor);
        flush(supervisor);
    }
    prepared_loaders_act(supervisor);
    sessions_free(supervisor);
    feeds_free(supervisor);
    devices_free(supervisor);
    supervisor->again = supervisor->again || anything_marked(supervisor) || reload_is_due(supervisor) ||
                        indexing_is_due(supervisor);
}
