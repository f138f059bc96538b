#include "daemon/supervisor/feeds/served_feed.h"

#include <inttypes.h>
#include <string.h>

#include "base/sentence.h"
#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"

// How long consumers that have returned wait for the others, who may still have batches in hand. After that a consumer
// may still return, but then it takes the others back.
#define RETURN_MOST_NS (5 * NS_PER_S)

static const struct state states[] = {
    [FEED_QUEUED] = {"queued", STATE(FEED_MAKING) | STATE(FEED_CLOSING)},
    [FEED_MAKING] = {"making", STATE(FEED_GATHERING) | STATE(FEED_CLOSING)},
    [FEED_GATHERING] = {"gathering", STATE(FEED_RUNNING) | STATE(FEED_CLOSING)},
    [FEED_RUNNING] = {"running", STATE(FEED_GATHERING) | STATE(FEED_CLOSING)},
    [FEED_CLOSING] = {"closing", 0},
};
static const struct state_table table = STATE_TABLE("feed", states);

const char *served_feed_state_name(enum feed_state state) {
    return state_name(&table, state);
}

void served_feed_set_state(struct served_feed *feed, enum feed_state state) {
    feed->state = (enum feed_state)state_next(&table, feed->state, state);
}

void served_feed_mark(struct served_feed *feed) {
    mark_set(&feed->supervisor->marked_feeds, &feed->mark);
}

void served_feed_write_names(const struct served_feed *feed) {
    const struct supervisor *supervisor = feed->supervisor;
    struct stats_feed *stats = feed->stats;
    // Whole, so that nothing is left of what was there before.
    memset(stats->name, 0, sizeof stats->name);
    memset(stats->dataset, 0, sizeof stats->dataset);
    if (!supervisor->config->show_others && !supervisor->stats_private)
        return;
    snprintf(stats->name, sizeof stats->name, "%s", feed->name);
    snprintf(stats->dataset, sizeof stats->dataset, "%s", feed->dataset->name);
}

void served_feed_publish(struct served_feed *feed, struct stats_feed *stats, uint32_t slot_count) {
    feed->stats = stats;
    stats_feed_write_begin(stats);
    for (int i = 0; i < FEED_COUNTERS; i++)
        atomic_store_explicit(&stats->counters[i], 0, memory_order_relaxed);
    for (int i = 0; i < LOADER_COUNTERS; i++)
        atomic_store_explicit(&stats->retired[i], 0, memory_order_relaxed);
    latencies_clear(stats->latencies, FEED_LATENCIES);
    latencies_clear(stats->retired_latencies, LOADER_LATENCIES);
    atomic_store_explicit(&stats->gpus, 0, memory_order_relaxed);
    stats->id = feed->id;
    served_feed_write_names(feed);
    stats->started_ns = monotonic_ns();
    stats->batch_size = feed->shape.batch_size;
    stats->world_size = feed->shape.world_size;
    stats->slot_count = slot_count;
    stats->ring_bytes = feed->ring_bytes;
    stats_feed_write_end(stats);
}

// ---- Runs --------------------------------------------------------------------------------------------------

// The run begins as early as possible with the same batch boundaries, so that other ranks, or clients that share the
// feed and are behind, even by epochs, find their place in the same run.
struct partition served_feed_partition(const struct feed_shape *shape, uint64_t epoch, uint64_t consumed) {
    uint64_t off_grid = consumed % ((uint64_t)shape->batch_size * shape->world_size);
    return (struct partition){
        .samples = shape->dataset->layout->samples,
        .batch_size = shape->batch_size,
        .world_size = shape->world_size,
        .drop_last = shape->drop_last,
        .start_epoch = off_grid ? epoch : 0,
        .start_sample = off_grid,
    };
}

struct partition served_feed_run(const struct feed_shape *shape, const struct attach_request *request) {
    struct partition run = served_feed_partition(shape, request->start_epoch, request->start_consumed);
    struct partition before = run;
    uint64_t sequence;
    before.start_epoch = request->run_epoch;
    before.start_sample = request->run_consumed;
    // A client may claim anything, so this counts only if its own place is in that run.
    bool possible =
        request->reconnect && request->run_consumed <= run.samples &&
        partition_sequence(&before, request->start_epoch, request->start_consumed, &sequence) == 0;
    return possible ? before : run;
}

// ---- Company -----------------------------------------------------------------------------------------------

// The feed was there before the daemon was lost. Each of those that return knows of the others as of its own last
// message, so the highest count is right, or as of a moment ago. If the run was not under way, the first batch waits
// for all, however long that takes, but nobody knows how many of them had been promised leases.
static void expect_return(struct served_feed *feed, const struct attach_request *request) {
    uint64_t now = monotonic_ns();
    uint64_t until = now + min_u64(RETURN_MOST_NS, feed->max_lag_ns / 2);
    if (feed->state != FEED_GATHERING || !request->reconnect)
        return;
    feed->wait_for = (uint32_t)max_u64(feed->wait_for, request->wait_for);
    if (!feed->newcomers_from_ns)
        feed->newcomers_from_ns = until;
    if (request->unbegun || feed->gather_until_ns)
        return;
    feed->gather_until_ns = until;
    feed->returns_until_ns = now + feed->max_lag_ns;
}

void served_feed_gather(struct served_feed *feed, const struct attach_request *request) {
    if (LIST_EMPTY(&feed->members)) {
        feed->wait_for = request->wait_for;
        feed->gathered = 0;
        feed->gather_until_ns = feed->newcomers_from_ns = 0;
        // Newcomers may be here before those that return.
        feed->returns_until_ns = feed->supervisor->listening_ns + feed->max_lag_ns;
        if (feed->state != FEED_GATHERING)
            served_feed_set_state(feed, FEED_GATHERING);
    }
    expect_return(feed, request);
}

void served_feed_expect_fewer(struct served_feed *feed) {
    const struct member *member;
    uint32_t most = 1;
    bool returns = feed->gather_until_ns || feed->newcomers_from_ns;
    if (feed->state != FEED_GATHERING || returns || LIST_EMPTY(&feed->members))
        return;
    LIST_FOREACH(member, &feed->members, feed_link)
        most = (uint32_t)max_u64(most, member->request.wait_for);
    feed->wait_for = (uint32_t)min_u64(feed->wait_for, most);
    if (feed->gathered >= feed->wait_for)
        served_feed_end_gathering(feed);
}

void served_feed_gathered(struct served_feed *feed, struct member *member) {
    if (member->is_gathered)
        return;
    member->is_gathered = true;
    feed->gathered++;
    if (feed->gathered >= feed->wait_for)
        served_feed_end_gathering(feed);
}

void served_feed_end_gathering(struct served_feed *feed) {
    if (feed->state != FEED_GATHERING)
        return;
    served_feed_set_state(feed, FEED_RUNNING);
    feed->admit = true; // newcomers have waited for those that return
    feed->tells_company = true;
    feed->told_company_ns = 0; // at once
    served_feed_mark(feed);
}

uint32_t served_feed_company(const struct served_feed *feed) {
    uint32_t here = feed->twins ? feed->counted : 1;
    if (feed->state != FEED_GATHERING)
        return here;
    return feed->gather_until_ns ? (uint32_t)max_u64(here, feed->wait_for) : 0;
}

// Other members of its rank, which read the same batches.
static uint32_t count_twins(const struct served_feed *feed, const struct member *member) {
    const struct member *other;
    uint32_t count = 0;
    LIST_FOREACH(other, &feed->members, feed_link)
        count += other != member && other->is_counted && other->request.rank == member->request.rank;
    return count;
}

void served_feed_count(struct served_feed *feed, struct member *member) {
    member->is_counted = true;
    feed->counted++;
    feed->twins += count_twins(feed, member);
    feed->tells_company = true;
}

void served_feed_uncount(struct served_feed *feed, struct member *member) {
    if (!member->is_counted)
        return;
    member->is_counted = false;
    feed->counted--;
    feed->twins -= count_twins(feed, member);
    feed->tells_company = true;
}

// ---- Ending ------------------------------------------------------------------------------------------------

void served_feed_refuse(struct served_feed *feed, const char *device, int code, const char *text) {
    struct member *member;
    TAILQ_FOREACH(member, &feed->awaiting, awaited_link)
        if (!device || strcmp(member->request.device, device) == 0)
            member_fail(member, code, "%s", text);
}

void served_feed_fail(struct served_feed *feed, int code, const char *format, ...) {
    char text[400];
    struct member *member;
    va_list arguments;
    if (feed->state == FEED_CLOSING)
        return;
    va_start(arguments, format);
    sentence_format(text, sizeof text, format, arguments);
    va_end(arguments);
    supervisor_report(feed->supervisor, "feed %" PRIu64 " has failed: %s", feed->id, text);
    served_feed_refuse(feed, NULL, code, text);
    LIST_FOREACH(member, &feed->members, feed_link)
        member_fail(member, code, "%s", text);
    served_feed_close(feed);
}

void served_feed_fail_damaged(struct served_feed *feed) {
    served_feed_fail(feed, -EIO, "dataset %s: a loader process has damaged the ring of the feed",
                     feed->dataset->name);
}

void served_feed_close(struct served_feed *feed) {
    if (feed->state == FEED_CLOSING)
        return;
    served_feed_set_state(feed, FEED_CLOSING);
    feed->closing_since_ns = monotonic_ns();
    served_feed_mark(feed);
}
