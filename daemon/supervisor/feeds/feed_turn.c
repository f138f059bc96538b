#include "daemon/supervisor/feeds/feed_turn.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/feed_clock.h"
#include "daemon/supervisor/feeds/feed_loaders.h"
#include "daemon/supervisor/feeds/feed_loaders_count.h"
#include "daemon/supervisor/feeds/growth.h"
#include "daemon/supervisor/feeds/idle.h"
#include "daemon/supervisor/feeds/kept.h"
#include "daemon/supervisor/feeds/making.h"
#include "daemon/supervisor/feeds/places.h"
#include "daemon/supervisor/feeds/pool_open.h"
#include "daemon/supervisor/feeds/pump.h"
#include "daemon/supervisor/feeds/sample_caches.h"
#include "daemon/supervisor/feeds/shared_blocks.h"

// ---- Members that hold others up ---------------------------------------------------------------------------

// A blocked lane waits for members that hold something and are not waiting themselves. The one furthest behind comes
// first, since it may be the only one.
static struct member *find_laggard(struct served_feed *feed, uint64_t now) {
    struct member *member, *laggard = NULL;
    uint64_t furthest = UINT64_MAX;
    LIST_FOREACH(member, &feed->members, feed_link) {
        struct consumer *consumer = &member->consumer;
        bool lags = !member->failed && consumer->held_count && !consumer->waiting_since_ns &&
                    delivery_holds_up(member_delivery(member), consumer);
        if (!lags) {
            consumer->lagging_since_ns = 0;
            continue;
        }
        if (!consumer->lagging_since_ns)
            consumer->lagging_since_ns = now;
        uint64_t oldest = delivery_oldest_held(member_delivery(member), consumer);
        if (now - consumer->lagging_since_ns >= feed->max_lag_ns && oldest < furthest) {
            furthest = oldest;
            laggard = member;
        }
    }
    return laggard;
}

// At most one at a time: whether another one is in the way too shows when this one has left.
static bool detach_laggard(struct served_feed *feed, uint64_t now) {
    // The next batches may have no slot because none has been allocated for them yet.
    const bool has_slots = !feed->making || making_lacks_memory(feed);
    const bool may_lag = feed->state == FEED_RUNNING && has_slots;
    struct member *laggard = may_lag ? find_laggard(feed, now) : NULL;
    if (!laggard)
        return false;
    stats_add(&feed->stats->counters[FEED_consumers_detached], 1);
    member_fail(laggard, -ETIME,
                "this consumer released no batch for %" PRIu64
                " s while others of the shared feed waited for it (max_lag), so it was detached",
                feed->max_lag_ns / NS_PER_S);
    return true;
}

// ---- Members that wait in vain -----------------------------------------------------------------------------

// They wait for others before the first batch, and those cannot join any more: draining would never end.
static void end_vain_waits(const struct served_feed *feed) {
    struct member *member;
    if (feed->supervisor->state != SUPERVISOR_DRAINING || feed->state != FEED_GATHERING ||
        feed->gather_until_ns || !TAILQ_EMPTY(&feed->awaiting) || feed->member_count >= feed->wait_for)
        return;
    LIST_FOREACH(member, &feed->members, feed_link)
        if (!member->failed)
            member_fail(member, -ESHUTDOWN,
                        "feedd accepts no new consumers, and this one waits for others (wait_for)");
}

// Stopped as it attached: the others begin without it.
static void detach_silent(struct served_feed *feed, uint64_t now) {
    struct member *member;
    LIST_FOREACH(member, &feed->members, feed_link) {
        bool all_here = feed->state == FEED_GATHERING && feed->member_count >= feed->wait_for;
        if (!all_here || member->is_gathered || member->failed) {
            member->silent_since_ns = 0;
            continue;
        }
        if (!member->silent_since_ns)
            member->silent_since_ns = now;
        if (now - member->silent_since_ns < feed->max_lag_ns)
            continue;
        served_feed_gathered(feed, member);
        stats_add(&feed->stats->counters[FEED_consumers_detached], 1);
        member_fail(member, -ETIME,
                    "this consumer did not confirm for %" PRIu64
                    " s that it had attached, while others of the shared feed waited for it (max_lag), so it"
                    " was detached",
                    feed->max_lag_ns / NS_PER_S);
    }
}

// ---- The turn ----------------------------------------------------------------------------------------------

static void end(struct served_feed *feed) {
    struct pool *pool;
    served_feed_refuse(feed, NULL, -EIO, "the feed was closed; see the daemon's log");
    feed_loaders_end(feed, false);
    LIST_FOREACH(pool, &feed->pools, link)
        pool_close(pool);
    poll_set_remove(&feed->event);
}

// A feed stays warm for a while after its last client has left.
static void close_unless_used(struct served_feed *feed, uint64_t now) {
    const struct supervisor *supervisor = feed->supervisor;
    uint64_t linger = supervisor->state == SUPERVISOR_RUNNING ? supervisor->config->linger_s * NS_PER_S : 0;
    if (served_feed_is_open(feed) && !served_feed_in_use(feed) && now >= feed->idle_since_ns + linger &&
        !idle_is_kept(feed, now))
        served_feed_close(feed);
}

void feed_act(struct served_feed *feed) {
    uint64_t now = monotonic_ns();
    making_act(feed);
    growth_act(feed);
    feed_loaders_act(feed);
    places_admit(feed);
    end_vain_waits(feed);
    if (served_feed_is_open(feed))
        pump_feed(feed);
    if (making_may_continue(feed)) // the first batch is complete; its grant is sent before that
        served_feed_mark(feed);
    if (feed->find_laggards)
        feed->find_laggards = detach_laggard(feed, now);
    close_unless_used(feed, now);
    if (feed->state == FEED_CLOSING)
        end(feed);
}

// ---- The tick ----------------------------------------------------------------------------------------------

static void close_idle_pools(struct served_feed *feed, uint64_t now) {
    struct pool *pool;
    uint64_t linger = feed->supervisor->config->linger_s * NS_PER_S;
    LIST_FOREACH(pool, &feed->pools, link)
        if (pool->idle_since_ns && !pool_is_awaited(pool) && now >= pool->idle_since_ns + linger &&
            now >= feed->warm_until_ns)
            pool_close(pool);
}

// Those that have come back have waited for the others for long enough.
static void end_waits_for_return(struct served_feed *feed, uint64_t now) {
    if (places_await_return(feed))
        return;
    if (feed->gather_until_ns && now >= feed->gather_until_ns)
        served_feed_end_gathering(feed);
    if (feed->newcomers_from_ns && now >= feed->newcomers_from_ns) {
        feed->newcomers_from_ns = 0;
        feed->admit = true;
        served_feed_expect_fewer(feed);
    }
}

void feed_tick(struct served_feed *feed, uint64_t now) {
    feed_loaders_watch(feed, now);
    served_feed_mark(feed); // for what has to be tried again
    if (!served_feed_is_open(feed))
        return;
    end_waits_for_return(feed, now);
    detach_silent(feed, now);
    feed->find_laggards = true;
    feed_clock_look(feed, now); // a long wait shows while it lasts
    close_idle_pools(feed, now);
    feed_loaders_count(feed, now);
}

// ---- The end -----------------------------------------------------------------------------------------------

static bool is_over(const struct served_feed *feed) {
    return feed->state == FEED_CLOSING && !feed->making && !growth_is_busy(feed) &&
           !served_feed_in_use(feed) && LIST_EMPTY(&feed->loaders) && LIST_EMPTY(&feed->pools);
}

static void forget_stats(struct stats_feed *stats) {
    stats_feed_write_begin(stats);
    stats->id = 0;
    memset(stats->name, 0, sizeof stats->name);
    memset(stats->dataset, 0, sizeof stats->dataset);
    stats_feed_write_end(stats);
}

static void free_feed(struct served_feed *feed) {
    struct supervisor *supervisor = feed->supervisor;
    struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_FREE_FEED, feed->id);
    mark_clear(&supervisor->marked_feeds, &feed->mark);
    LIST_REMOVE(feed, link);
    supervisor->feed_count--;
    delivery_close(&feed->delivery);
    growth_close(feed);
    ring_unmap(&feed->ring);
    kept_take(feed);
    shared_blocks_close(feed);
    sample_caches_end(feed);
    close_fd(&feed->event_fd);
    if (feed->stats) {
        forget_stats(feed->stats);
        log_info("feed %" PRIu64 " of dataset %s is closed", feed->id, feed->dataset->name);
    }
    datasets_release(feed->dataset, supervisor->own_closer);
    free(feed);
    turn_clock_leave(&supervisor->clock, before);
}

// What has been freed may be what they wait for.
static void retry_those_in_the_making(struct supervisor *supervisor) {
    struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        making_try_again(feed);
}

void feeds_free(struct supervisor *supervisor) {
    struct served_feed *feed, *next_feed;
    struct pool *pool, *next_pool;
    bool freed = false;
    LIST_FOREACH_SAFE(feed, &supervisor->feeds, link, next_feed) {
        LIST_FOREACH_SAFE(pool, &feed->pools, link, next_pool)
            if (pool_is_over(pool)) {
                pool_free(pool);
                served_feed_mark(feed); // copies that were in progress had kept slots of the ring
            }
        if (is_over(feed)) {
            free_feed(feed);
            freed = true;
        }
    }
    if (freed)
        retry_those_in_the_making(supervisor);
}
