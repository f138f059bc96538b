#include "daemon/supervisor/feeds/feed_clock.h"

#include "base/time.h"
#include "daemon/supervisor/delivery/lane.h"
#include "daemon/supervisor/delivery/wait_cause.h"
#include "daemon/supervisor/feeds/pool.h"
#include "shm/stats.h"

static const enum feed_counter counters[WAIT_CAUSES] = {
    [WAIT_LOADERS] = FEED_wait_loaders_ns, [WAIT_COPY] = FEED_wait_copy_ns,
    [WAIT_POOL] = FEED_wait_pool_ns,       [WAIT_RANK] = FEED_wait_rank_ns,
    [WAIT_OTHERS] = FEED_wait_others_ns,
};

static void count_wait(struct served_feed *feed, struct consumer *consumer, uint64_t now) {
    const uint64_t waited = now - consumer->wait_counted_ns;
    stats_add(&feed->stats->counters[FEED_consumer_wait_ns], waited);
    stats_add(&feed->stats->counters[counters[consumer->cause]], waited);
    consumer->wait_counted_ns = now;
}

void feed_clock_wait_begins(struct consumer *consumer, uint64_t now) {
    consumer->waiting_since_ns = consumer->wait_counted_ns = now;
    consumer->cause = WAIT_LOADERS; // until the next look, in this turn
}

void feed_clock_wait_ends(struct served_feed *feed, struct consumer *consumer, uint64_t now) {
    if (!consumer->waiting_since_ns)
        return;
    count_wait(feed, consumer, now);
    const struct member *member = CONTAINER_OF(consumer, struct member, consumer);
    latency_add(&feed->stats->latencies[FEED_LATENCY_data], now - consumer->waiting_since_ns, 1);
    trace_write_of(&feed->supervisor->trace, TRACE_WAIT, consumer->waiting_since_ns, now, member->process,
                   (uint32_t)feed->id, 0);
    consumer->waiting_since_ns = 0;
}

void feed_clock_granted(struct delivery *delivery, const uint32_t *slots, uint32_t count, uint64_t now) {
    for (uint32_t i = 0; i < count; i++)
        delivery->slots[slots[i]].granted_ns = now;
}

uint64_t feed_clock_granted_ns(const struct delivery *delivery, const struct consumer *consumer,
                               uint32_t slot) {
    const bool held = slot < delivery->ring->header->slot_count && consumer_holds(consumer, slot);
    return held ? delivery->slots[slot].granted_ns : 0;
}

void feed_clock_released(struct member *member, uint32_t slot, uint64_t granted_ns, uint64_t now) {
    struct served_feed *feed = member->feed;
    latency_add(&feed->stats->latencies[FEED_LATENCY_lease], now - granted_ns, 1);
    trace_write_of(&feed->supervisor->trace, TRACE_LEASE, granted_ns, now, member->process,
                   (uint32_t)feed->id, slot);
}

static bool has_complete_batch(const struct served_feed *feed) {
    const struct lane *lane;
    LIST_FOREACH(lane, &feed->delivery.lanes, link)
        if (lane->ready && !lane_is_deserted(lane))
            return true;
    return false;
}

void feed_clock_look(struct served_feed *feed, uint64_t now) {
    struct feed_clock *clock = &feed->clock;
    const uint64_t passed = clock->looked_ns ? now - clock->looked_ns : 0;
    struct member *member;
    stats_add(&feed->stats->counters[FEED_lease_ns], clock->leases * passed);
    stats_add(&feed->stats->counters[FEED_ready_ns], clock->complete ? passed : 0);
    *clock = (struct feed_clock){.looked_ns = now, .complete = has_complete_batch(feed)};
    LIST_FOREACH(member, &feed->members, feed_link) {
        struct consumer *consumer = &member->consumer;
        clock->leases += consumer->held_count;
        if (!consumer->waiting_since_ns)
            continue;
        count_wait(feed, consumer, now);
        consumer->cause =
            feed->state == FEED_RUNNING ? wait_cause_of(member_delivery(member), consumer) : WAIT_OTHERS;
    }
}
