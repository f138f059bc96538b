// What time decides, looked at a few times a second: loaders that hang, consumers that hold others up, feeds
// that nobody uses, sessions that say nothing, stops that take too long.
#include <inttypes.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/pool.h"
#include "shm/stats.h"

#define CLOSING_MOST_NS (1 * NS_PER_S) // to take in the reason why its session ends

static void watch_loaders(struct served_feed *feed, uint64_t now) {
    const struct supervisor *supervisor = feed->supervisor;
    struct loader_process *loader, *next;
    for (loader = LIST_FIRST(&feed->children); loader; loader = next) {
        next = LIST_NEXT(loader, link);
        if (loader->process.state == PROCESS_RUNNING &&
            loader_process_silent_ns(loader, now) > supervisor->config->loader_timeout_s * NS_PER_S) {
            supervisor_report(feed->supervisor,
                              "loader %u of feed %" PRIu64 " has not moved for %" PRIu64 " s; it is replaced",
                              loader->serial, feed->id, supervisor->config->loader_timeout_s);
            process_kill(&loader->process);
        }
        process_watch(&loader->process, now, supervisor->config->stop_timeout_s * NS_PER_S);
        feed_finish_loader(feed, loader);
    }
}

// Those of a blocked lane that hold something and do not wait themselves are the ones it waits for: the one furthest
// behind first, since that may be all that is missing.
static struct session *find_laggard(struct served_feed *feed, uint64_t now) {
    struct session *session, *laggard = NULL;
    uint64_t furthest = UINT64_MAX;
    LIST_FOREACH(session, &feed->sessions, feed_link) {
        struct consumer *consumer = &session->consumer;
        const struct delivery *delivery = session_delivery(session);
        bool lags =
            consumer->held_count && !consumer->waiting_since_ns && delivery_holds_up(delivery, consumer);
        if (!lags) {
            consumer->lagging_since_ns = 0;
            continue;
        }
        if (!consumer->lagging_since_ns)
            consumer->lagging_since_ns = now;
        uint64_t oldest = delivery_oldest_held(delivery, consumer);
        if (now - consumer->lagging_since_ns >= feed->max_lag_ns && oldest < furthest) {
            furthest = oldest;
            laggard = session;
        }
    }
    return laggard;
}

static void watch_lag(struct served_feed *feed, uint64_t now) {
    struct session *laggard;
    if (feed->state != FEED_RUNNING)
        return;
    while ((laggard = find_laggard(feed, now))) {
        stats_add(&feed->stats->counters[FEED_consumers_detached], 1);
        session_fail(laggard, -ETIME,
                     "this consumer released no batch for %" PRIu64
                     " s while others of the shared feed waited for it (max_lag), and was detached",
                     feed->max_lag_ns / NS_PER_S);
    }
}

// A long wait shows in the statistics while it lasts.
static void count_waiting(struct served_feed *feed, uint64_t now) {
    struct session *session;
    LIST_FOREACH(session, &feed->sessions, feed_link) {
        struct consumer *consumer = &session->consumer;
        if (!consumer->waiting_since_ns)
            continue;
        stats_add(&feed->stats->counters[FEED_consumer_wait_ns], now - consumer->waiting_since_ns);
        consumer->waiting_since_ns = now;
    }
}

static void watch_pools(struct served_feed *feed, uint64_t now) {
    struct pool *pool, *next;
    for (pool = LIST_FIRST(&feed->pools); pool; pool = next) {
        next = LIST_NEXT(pool, feed_link);
        pool_watch(pool, now);
        if (feed->state == FEED_CLOSING)
            return; // which has closed the others
    }
}

static void watch_feed(struct served_feed *feed, uint64_t now) {
    watch_loaders(feed, now);
    if (feed->state == FEED_CLOSING || feed->state == FEED_MAKING)
        return;
    feed_start_loaders(feed);
    if (feed->gather_until_ns && now >= feed->gather_until_ns)
        feed_end_gathering(feed);
    watch_lag(feed, now);
    count_waiting(feed, now);
    watch_pools(feed, now);
    // A dispatch that found the queue full is tried again here.
    feed_pump(feed);
    uint64_t linger =
        feed->supervisor->state == SUPERVISOR_RUNNING ? feed->supervisor->config->linger_s * NS_PER_S : 0;
    if (feed->state != FEED_CLOSING && !feed_in_use(feed) && feed->idle_since_ns &&
        now >= feed->idle_since_ns + linger)
        feed_close(feed);
}

static void watch_session(struct session *session, uint64_t now) {
    if (session->state == SESSION_NEW && now > session->opened_ns + PROTO_HELLO_TIMEOUT_MS * NS_PER_MS)
        session_fail(session, -ETIMEDOUT, "no hello came within %u ms", PROTO_HELLO_TIMEOUT_MS);
    else if (session->state == SESSION_CLOSING && now > session->closing_since_ns + CLOSING_MOST_NS)
        session_close(session);
}

void watch_tick(struct supervisor *supervisor) {
    uint64_t now = monotonic_ns();
    struct served_feed *feed, *next_feed;
    struct session *session, *next_session;
    struct device *device, *next_device;
    for (feed = LIST_FIRST(&supervisor->feeds); feed; feed = next_feed) {
        next_feed = LIST_NEXT(feed, link);
        watch_feed(feed, now);
        feed_free_if_over(feed);
    }
    for (session = LIST_FIRST(&supervisor->sessions); session; session = next_session) {
        next_session = LIST_NEXT(session, link);
        watch_session(session, now);
    }
    for (device = LIST_FIRST(&supervisor->devices); device; device = next_device) {
        next_device = LIST_NEXT(device, link);
        device_watch(device, now);
    }
}
