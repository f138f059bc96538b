#include "daemon/supervisor/feeds/places.h"

#include "base/error.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/feed_clock.h"
#include "daemon/supervisor/feeds/idle.h"
#include "daemon/supervisor/feeds/kept.h"
#include "daemon/supervisor/feeds/pool_open.h"

// ---- Waiting -----------------------------------------------------------------------------------------------

void places_await(struct served_feed *feed, struct member *member) {
    member->awaited = feed;
    TAILQ_INSERT_TAIL(&feed->awaiting, member, awaited_link);
    feed->admit = true;
    served_feed_mark(feed);
}

static void forget(struct member *member) {
    struct served_feed *feed = member->awaited;
    if (!feed)
        return;
    TAILQ_REMOVE(&feed->awaiting, member, awaited_link);
    member->awaited = NULL;
    served_feed_mark(feed);
}

// ---- Entering ----------------------------------------------------------------------------------------------

static void enter(struct served_feed *feed, struct member *member) {
    member->feed = feed;
    LIST_INSERT_HEAD(&feed->members, member, feed_link);
    feed->member_count++;
    served_feed_count(feed, member);
    feed->idle_since_ns = 0;
    if (!member->request.confirms)
        served_feed_gathered(feed, member);
}

// In a feed that nobody uses, the newcomer decides where it continues. If its position is a batch of this run, the run
// continues there (and the ring is warm); otherwise a new run begins.
static void place_feed(struct served_feed *feed, const struct attach_request *request) {
    uint64_t sequence;
    if (partition_sequence(&feed->delivery.partition, request->start_epoch, request->start_consumed,
                           &sequence) == 0)
        return;
    struct partition partition = served_feed_run(&feed->shape, request);
    struct pool *pool;
    LIST_FOREACH(pool, &feed->pools, link)
        delivery_restart(&pool->delivery, &partition);
    delivery_restart(&feed->delivery, &partition);
}

static int join(struct served_feed *feed, struct member *member, struct error *error) {
    const struct attach_request *request = &member->request;
    bool alone = LIST_EMPTY(&feed->members);
    if (alone) {
        feed->max_lag_ns = request->max_lag_s * NS_PER_S;
        place_feed(feed, request);
    }
    served_feed_gather(feed, request);
    struct start_position start = {
        .given = alone || request->resume,
        .goes_back = request->reconnect && monotonic_ns() < feed->returns_until_ns,
        .epoch = request->start_epoch,
        .consumed = request->start_consumed,
    };
    return delivery_join(member_delivery(member), &member->consumer, request->rank, request->epochs, &start,
                         request->leases ? request->leases : request->prefetch, error);
}

// A member on a GPU needs a place in the feed's pool there, whose transfer process pins all slots of the ring. 0: it
// has one; 1: the ring is being allocated, or the pool opened; or an error.
static int enter_pool(struct served_feed *feed, struct member *member, struct error *error) {
    struct pool *pool;
    if (!*member->request.device)
        return 0;
    if (feed->making)
        return 1;
    int err = pool_get(feed, &member->request, &pool, error);
    if (err)
        return err;
    return pool->state == POOL_OPEN ? pool_enter(pool, member, error) : 1;
}

static void admit(struct served_feed *feed, struct member *member) {
    struct error error = {0};
    int err = enter_pool(feed, member, &error);
    if (err > 0)
        return;
    if (!err)
        err = join(feed, member, &error);
    if (err) {
        if (member->pool)
            pool_leave(member->pool, member);
        member_fail(member, err, "%s", error.text);
        return;
    }
    forget(member);
    enter(feed, member);
    member->events->joined(member);
}

// Newcomers get what those that return have left: not the leases that these were promised.
static bool lets_others_return(const struct served_feed *feed, const struct member *member) {
    return feed->state == FEED_GATHERING && (feed->gather_until_ns || feed->newcomers_from_ns) &&
           !LIST_EMPTY(&feed->members) && !member->request.reconnect;
}

void places_admit(struct served_feed *feed) {
    struct member *member, *next;
    if (!feed->admit || !served_feed_is_open(feed))
        return;
    feed->admit = false;
    TAILQ_FOREACH_SAFE(member, &feed->awaiting, awaited_link, next)
        if (!member->failed && !lets_others_return(feed, member))
            admit(feed, member);
}

bool places_await_return(const struct served_feed *feed) {
    const struct member *member;
    TAILQ_FOREACH(member, &feed->awaiting, awaited_link)
        if (member->request.reconnect && !member->failed)
            return true;
    return false;
}

// ---- Leaving -----------------------------------------------------------------------------------------------

static void leave(struct served_feed *feed, struct member *member) {
    struct consumer *consumer = &member->consumer;
    uint64_t now = monotonic_ns();
    feed_clock_wait_ends(feed, consumer, now);
    kept_note(feed, member);
    delivery_leave(member_delivery(member), consumer);
    LIST_REMOVE(member, feed_link);
    feed->member_count--;
    served_feed_uncount(feed, member);
    member->feed = NULL;
    if (member->pool)
        pool_leave(member->pool, member);
    if (LIST_EMPTY(&feed->members)) {
        feed->idle_since_ns = now;
        feed->admit = true; // see lets_others_return
    }
    if (feed->state == FEED_GATHERING && member->is_gathered)
        feed->gathered--;
    served_feed_expect_fewer(feed);
    served_feed_mark(feed);
}

void places_leave(struct member *member) {
    if (member->awaited && !member->failed)
        idle_expect_return(member->awaited);
    forget(member);
    if (member->feed)
        leave(member->feed, member);
}
