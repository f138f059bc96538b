#include "daemon/supervisor/clients/brought.h"

#include <string.h>

#include "base/states.h"
#include "base/time.h"
#include "daemon/dataset/derived.h"
#include "daemon/supervisor/clients/brought_room.h"
#include "daemon/supervisor/clients/brought_words.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/served_feed.h"

static const struct state states[] = {
    [BROUGHT_ARRIVING] = {"arriving", STATE(BROUGHT_WORKING) | STATE(BROUGHT_READY)},
    [BROUGHT_WORKING] = {"being worked on", STATE(BROUGHT_READY) | STATE(BROUGHT_FAILED)},
    [BROUGHT_READY] = {"ready", 0},
    [BROUGHT_FAILED] = {"failed", 0},
};
static const struct state_table table = STATE_TABLE("brought view", states);

void brought_set_state(struct brought *brought, enum brought_state state) {
    brought->state = (enum brought_state)state_next(&table, brought->state, state);
}

void brought_mark_sessions(const struct brought *brought) {
    struct session *session;
    TAILQ_FOREACH(session, &brought->supervisor->sessions, link)
        if (session->brought == brought)
            session_mark(session);
}

bool brought_is_used(const struct brought *brought) {
    const struct served_feed *feed;
    if (brought->sessions)
        return true;
    LIST_FOREACH(feed, &brought->supervisor->feeds, link)
        if (feed->dataset == brought->dataset && served_feed_in_use(feed))
            return true;
    return false;
}

// ---- The beginning and the end -----------------------------------------------------------------------------

void brought_free(struct brought *brought) {
    struct supervisor *supervisor = brought->supervisor;
    TAILQ_REMOVE(&supervisor->brought, brought, link);
    brought_words_leave(brought);
    if (brought->dataset)
        datasets_release(brought->dataset, supervisor->own_closer);
    datasets_release(brought->want.base, supervisor->own_closer);
    free(brought);
}

// Of sample numbers the type makes no difference.
static bool is_same(const struct brought_want *one, const struct brought_want *other) {
    return one->base == other->base &&
           (one->dtype == other->dtype || one->selection.kind == SELECTION_LIST) &&
           one->chooses == other->chooses &&
           memcmp(&one->selection, &other->selection, sizeof one->selection) == 0;
}

static struct brought *find(const struct supervisor *supervisor, uid_t user,
                            const struct brought_want *want) {
    struct brought *brought;
    TAILQ_FOREACH(brought, &supervisor->brought, link)
        if (brought->user == user && brought->state != BROUGHT_FAILED && is_same(&brought->want, want))
            return brought;
    return NULL;
}

// A part of the samples needs no words.
static int begin(struct brought *brought, struct error *error) {
    if (selection_list_bytes(&brought->want.selection))
        return brought_words_begin(brought, error);
    brought->dataset = derived_open(brought->want.base, &brought->want.selection, 0, -1);
    if (!brought->dataset)
        return error_set(error, -ENOMEM, "out of memory");
    brought_set_state(brought, BROUGHT_READY);
    return 0;
}

static int make(struct supervisor *supervisor, uid_t user, const struct brought_want *want,
                struct brought **made, struct error *error) {
    uint64_t bytes = sizeof **made + derived_bytes(want->base) + brought_words_memory(want);
    int err = brought_make_room(supervisor, user, bytes, error);
    if (err)
        return err;
    struct brought *brought = calloc(1, sizeof *brought);
    if (!brought)
        return error_set(error, -ENOMEM, "out of memory");
    *brought = (struct brought){.supervisor = supervisor, .user = user, .want = *want, .bytes = bytes};
    dataset_ref(want->base);
    TAILQ_INSERT_TAIL(&supervisor->brought, brought, link);
    err = begin(brought, error);
    if (err)
        brought_free(brought);
    else
        *made = brought;
    return err;
}

// ---- Users -------------------------------------------------------------------------------------------------

int brought_hold(struct session *session, const struct brought_want *want, struct brought **held,
                 struct error *error) {
    struct supervisor *supervisor = session->supervisor;
    struct brought *brought = find(supervisor, session->peer.uid, want);
    int err = brought ? 0 : make(supervisor, session->peer.uid, want, &brought, error);
    if (err)
        return err;
    brought->sessions++;
    brought->idle_since_ns = 0;
    TAILQ_REMOVE(&supervisor->brought, brought, link);
    TAILQ_INSERT_TAIL(&supervisor->brought, brought, link);
    *held = brought;
    return 0;
}

void brought_let_go(struct brought *brought, struct session *session) {
    brought->sessions--;
    if (brought->bringer == session) {
        brought->bringer = NULL;
        brought_mark_sessions(brought); // one of the others begins again
    }
    if (!brought->sessions && brought->state != BROUGHT_READY)
        brought_free(brought);
}

void brought_act(struct brought *brought) {
    if (brought->state == BROUGHT_WORKING)
        brought_words_finish(brought);
}

// ---- The tick ----------------------------------------------------------------------------------------------

static bool is_over(struct brought *brought, uint64_t now) {
    const struct supervisor *supervisor = brought->supervisor;
    if (brought->sessions || brought->dataset->references > 1) {
        brought->idle_since_ns = 0;
        return false;
    }
    if (!brought->idle_since_ns)
        brought->idle_since_ns = now;
    return now >= brought->idle_since_ns + supervisor->config->linger_s * NS_PER_S;
}

void brought_tick(struct supervisor *supervisor, uint64_t now) {
    struct brought *brought, *next;
    TAILQ_FOREACH_SAFE(brought, &supervisor->brought, link, next) {
        if (brought->bringer)
            brought_words_watch(brought, now);
        else if (brought->state == BROUGHT_READY && is_over(brought, now))
            brought_free(brought);
    }
}

void brought_leave(struct supervisor *supervisor) {
    struct brought *brought;
    while ((brought = TAILQ_FIRST(&supervisor->brought)))
        brought_free(brought);
}
