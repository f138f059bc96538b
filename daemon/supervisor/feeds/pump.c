#include "daemon/supervisor/feeds/pump.h"

#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "daemon/on_error.h"
#include "daemon/supervisor/feeds/bad_samples.h"
#include "daemon/supervisor/feeds/feed_clock.h"
#include "daemon/supervisor/feeds/pool_growth.h"
#include "shm/ring_supervisor.h"

#define TELL_EVERY_NS (100 * NS_PER_MS) // while many come and go

static void count_granted(struct served_feed *feed, const struct ring *ring, const uint32_t *slots,
                          uint32_t count) {
    uint64_t samples = 0, ragged = 0;
    const struct ring_header *header = ring->header;
    for (uint32_t i = 0; i < count; i++) {
        const struct ring_slot *batch = ring_dispatched(ring, slots[i]);
        samples += batch->count - batch->skipped;
        ragged += ring_ragged_bytes(ring, slots[i]);
    }
    stats_add(&feed->stats->counters[FEED_batches], count);
    stats_add(&feed->stats->counters[FEED_samples], samples);
    stats_add(&feed->stats->counters[FEED_bytes],
              samples * ring_sample_bytes(header->fields, header->field_count) + ragged);
}

// How many batches at once.
static uint32_t grantable(struct member *member) {
    return member->pool ? pool_growth_tell(member->pool, member, PROTO_MAX_GRANTS) : PROTO_MAX_GRANTS;
}

static void grant(struct served_feed *feed, struct member *member, uint64_t now) {
    uint32_t slots[PROTO_MAX_GRANTS];
    uint64_t sequence = 0;
    uint32_t count;
    struct consumer *consumer = &member->consumer;
    struct delivery *delivery = member_delivery(member);
    uint32_t company = served_feed_company(feed);
    while ((count = delivery_grant(delivery, consumer, &sequence, slots, grantable(member))) > 0) {
        feed_clock_wait_ends(feed, consumer, now);
        feed_clock_granted(delivery, slots, count, now);
        count_granted(feed, delivery->ring, slots, count);
        member->events->granted(member, sequence, slots, count, company);
        member->company_told = company;
    }
    if (consumer_at_end(consumer) && !member->end_told) {
        member->end_told = true;
        served_feed_uncount(feed, member); // it will not return
        member->events->ended(member);
    }
}

// At once, since the daemon may be lost at any time; but a crowd that comes or goes is told of as one.
static void tell_company(struct served_feed *feed) {
    struct member *member;
    uint32_t company = served_feed_company(feed);
    if (!feed->tells_company || !company || monotonic_ns() < feed->told_company_ns + TELL_EVERY_NS)
        return;
    feed->tells_company = false;
    LIST_FOREACH(member, &feed->members, feed_link) {
        if (member->failed || member->end_told || member->company_told == company)
            continue;
        if (member->events->accompanied(member, company))
            member->company_told = company;
        else
            feed->tells_company = true; // with the next tick
        feed->told_company_ns = monotonic_ns();
    }
}

static void update_gauges(const struct served_feed *feed) {
    const struct delivery *delivery = &feed->delivery;
    uint32_t busy = delivery->slot_count - delivery->free_count;
    atomic_store_explicit(&feed->stats->slots_ready, delivery->ready_count, memory_order_relaxed);
    atomic_store_explicit(&feed->stats->slots_filling, busy - delivery->ready_count, memory_order_relaxed);
    atomic_store_explicit(&feed->stats->consumers, delivery->consumer_count, memory_order_relaxed);
    atomic_store_explicit(&feed->stats->loaders, feed->loaders_running, memory_order_relaxed);
    const struct pool *pool;
    uint64_t gpus = 0;
    LIST_FOREACH(pool, &feed->pools, link)
        if (pool->tenant.device)
            gpus |= 1ull << pool->tenant.device->record;
    atomic_store_explicit(&feed->stats->gpus, gpus, memory_order_relaxed);
}

// A view's samples are named as those of its dataset, and a mix's as those of their source.
static void fail_with_read_error(struct served_feed *feed) {
    static const char *const endings[] = {
        [ON_ERROR_FAIL] = "; on_error = skip in feedd.conf leaves such samples out",
        [ON_ERROR_SKIP] = "",
        [ON_ERROR_REPLACE] = "; nor could the samples tried before it (on_error)",
    };
    struct ring_error failure;
    char path[DATASET_PATH_TEXT];
    if (!ring_take_failure(&feed->ring, &failure) || failure.file >= dataset_file_numbers(feed->dataset)) {
        served_feed_fail(feed, -EIO, "dataset %s: a sample cannot be read", feed->dataset->name);
        return;
    }
    uint32_t file = failure.file;
    const struct dataset *dataset = dataset_of_file(feed->dataset, &file);
    const char *refused = bad_samples_reason(feed, dataset, failure.sample, failure.code), *reason = refused;
    if (!reason)
        reason = failure.code == -ENODATA && !dataset->layout->folder_count
                     ? "the file ends there; it has shrunk since it was opened"
                     : dataset_read_reason(dataset->layout->folder_count, failure.code);
    served_feed_fail(feed, -EIO, "dataset %s: sample %" PRIu64 " cannot be %s: %s, offset %" PRIu64 ": %s%s",
                     dataset->of ? dataset->of : dataset->name, failure.sample,
                     refused ? "processed" : "read", dataset_file_path(dataset, file, path), failure.offset,
                     reason, endings[feed->dataset->on_error]);
}

// True if the ring has slots to give out again.
static bool pump_pools(const struct served_feed *feed) {
    struct pool *pool;
    bool freed = false;
    // Nothing is copied to the pools before all have joined: the last to join must find the first batch in the ring.
    if (feed->state != FEED_RUNNING)
        return false;
    LIST_FOREACH(pool, &feed->pools, link)
        freed |= pool_pump(pool);
    return freed;
}

// Called before looking for finished batches, so that any batch finished after that look wakes us again.
static void arm(struct served_feed *feed) {
    struct pool *pool;
    ring_supervisor_arm(&feed->ring);
    LIST_FOREACH(pool, &feed->pools, link)
        ring_supervisor_arm(&pool->ring);
}

// What a pump has left is for the next turn, so that others get theirs first.
static void come_again_if_behind(struct served_feed *feed) {
    const struct pool *pool;
    bool behind = feed->delivery.behind;
    LIST_FOREACH(pool, &feed->pools, link)
        behind |= pool->delivery.behind && pool->state != POOL_CLOSING && feed->state == FEED_RUNNING;
    if (!behind)
        return;
    served_feed_mark(feed);
    feed->supervisor->again = true;
}

void pump_feed(struct served_feed *feed) {
    struct member *member;
    int err;
    arm(feed);
    // First what comes back from pools, since it makes room in the ring; then what goes out to them.
    pump_pools(feed);
    do
        err = delivery_pump(&feed->delivery);
    while (!err && pump_pools(feed)); // batches without samples pass through at once
    if (err == -EBADMSG) {
        served_feed_fail_damaged(feed);
        return;
    }
    if (err) {
        fail_with_read_error(feed);
        return;
    }
    const uint64_t now = monotonic_ns();
    pace_note(&feed->pace, feed->delivery.completed, now);
    if (feed->state == FEED_RUNNING)
        LIST_FOREACH(member, &feed->members, feed_link)
            if (!member->failed)
                grant(feed, member, now);
    feed_clock_look(feed, now);
    tell_company(feed);
    update_gauges(feed);
    come_again_if_behind(feed);
}
