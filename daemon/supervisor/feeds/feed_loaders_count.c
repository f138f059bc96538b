#include "daemon/supervisor/feeds/feed_loaders_count.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/log.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "shm/ring_supervisor.h"
#include "shm/stats_read.h"

uint32_t feed_loaders_first(const struct config *config, uint32_t processors) {
    return config->loaders ? (uint32_t)config->loaders : loader_count_first(processors);
}

uint32_t feed_loaders_most(const struct served_feed *feed) {
    return feed->loaders_auto ? LOADER_COUNT_MOST : feed->loaders_wanted;
}

// ---- One more, one less ------------------------------------------------------------------------------------

uint64_t feed_loaders_taken(const struct served_feed *feed) {
    const bool starts_more = feed->state != FEED_CLOSING && feed->loaders_running < feed->loaders_wanted;
    const struct loader_process *loader;
    uint64_t count = starts_more ? feed->loaders_wanted - feed->loaders_running : 0;
    LIST_FOREACH(loader, &feed->loaders, link)
        count++;
    return count;
}

// Loaders that may still be started without taking what feeds that are still to come begin with.
static uint32_t spare_records(const struct supervisor *supervisor) {
    const struct served_feed *feed;
    uint64_t taken = LOADER_COUNT_FIRST * (uint64_t)STATS_MAX_FEEDS;
    taken -= min_u64(taken, LOADER_COUNT_FIRST * (uint64_t)supervisor->feed_count);
    LIST_FOREACH(feed, &supervisor->feeds, link)
        taken += feed_loaders_taken(feed);
    return taken < STATS_MAX_LOADERS ? (uint32_t)(STATS_MAX_LOADERS - taken) : 0;
}

// It ends by itself when it has filled what it has claimed, and is not replaced.
static void retire(struct served_feed *feed, struct loader_process *loader, uint64_t now) {
    loader->retired_ns = now;
    loader->process.asked = true;
    loader->process.end_counted = true;
    feed->loaders_running--;
    atomic_store_explicit(&loader->record->retires, 1, memory_order_relaxed);
}

void feed_loaders_report_retired(const struct served_feed *feed, const struct loader_process *loader) {
    const struct process *process = &loader->process;
    char end[128];
    if (feed->state == FEED_CLOSING || (!process->exit_signal && !process->exit_status)) {
        log_debug("loader %" PRIu32 " of feed %" PRIu64 " has ended", loader->serial, feed->id);
        return;
    }
    process_describe_end(process, end, sizeof end);
    supervisor_report(
        feed->supervisor, "loader %" PRIu32 " of feed %" PRIu64 ", which was no longer needed, %s%s",
        loader->serial, feed->id, end, process->signalled_ns ? ", because it did not end by itself" : "");
}

static struct loader_process *last_stripe(const struct served_feed *feed) {
    struct loader_process *loader, *last = NULL;
    LIST_FOREACH(loader, &feed->loaders, link)
        if (!loader->process.end_counted && (!last || loader->stripe > last->stripe))
            last = loader;
    return last;
}

// Of the number that there are to be; those that start get what is left.
static void divide_stripes(const struct served_feed *feed) {
    struct loader_process *loader;
    uint32_t stripe = 0;
    LIST_FOREACH(loader, &feed->loaders, link)
        if (!loader->process.end_counted) {
            loader->stripe = stripe++;
            atomic_store_explicit(&loader->record->stripe, STATS_STRIPE(loader->stripe, feed->loaders_wanted),
                                  memory_order_relaxed);
        }
}

static void change(struct served_feed *feed, uint32_t wanted, uint64_t now) {
    const uint32_t before = feed->loaders_wanted;
    struct loader_process *loader;
    if (wanted == before)
        return;
    feed->loaders_wanted = wanted;
    while (feed->loaders_running > wanted && (loader = last_stripe(feed)))
        retire(feed, loader, now);
    divide_stripes(feed);
    if (wanted < before && feed->ring.header)
        ring_wake_loaders(&feed->ring, LOADER_COUNT_MOST); // those that sleep hear of it
    log_info("feed %" PRIu64 ": %" PRIu32 " loader%s instead of %" PRIu32 "%s", feed->id, wanted,
             wanted == 1 ? "" : "s", before, feed->loaders_auto ? ", which is what it needs" : "");
    served_feed_mark(feed);
}

// ---- By hand -----------------------------------------------------------------------------------------------

int feed_loaders_set(struct served_feed *feed, uint32_t count, struct error *error) {
    const uint32_t more = count > feed->loaders_wanted ? count - feed->loaders_wanted : 0;
    if (more > spare_records(feed->supervisor))
        return error_set(
            error, -EBUSY,
            "this daemon may have %u loader processes, and too many of them are in use or kept for"
            " other feeds",
            STATS_MAX_LOADERS);
    feed->loaders_auto = count == 0;
    loader_count_init(&feed->loader_count, count ? count : feed->loaders_wanted);
    if (count)
        change(feed, count, monotonic_ns());
    return 0;
}

// ---- As it needs -------------------------------------------------------------------------------------------

static uint64_t counted(const struct served_feed *feed, enum loader_counter counter) {
    const struct loader_process *loader;
    uint64_t sum = atomic_load_explicit(&feed->stats->retired[counter], memory_order_relaxed);
    LIST_FOREACH(loader, &feed->loaders, link)
        sum += atomic_load_explicit(&loader->record->counters[counter], memory_order_relaxed);
    return sum;
}

// All that are wanted are at work.
static bool all_have_started(const struct served_feed *feed) {
    const struct loader_process *loader;
    LIST_FOREACH(loader, &feed->loaders, link)
        if (!atomic_load_explicit(&loader->record->reader, memory_order_relaxed))
            return false;
    return feed->loaders_running == feed->loaders_wanted;
}

// A loader that does not retire by itself is asked as when the feed ends, and then killed.
static void hurry_retired(const struct served_feed *feed, uint64_t now) {
    const uint64_t patience_ns = feed->supervisor->config->stop_timeout_s * NS_PER_S;
    struct loader_process *loader;
    LIST_FOREACH(loader, &feed->loaders, link)
        if (loader->retired_ns && now >= loader->retired_ns + patience_ns)
            process_stop(&loader->process);
}

void feed_loaders_count(struct served_feed *feed, uint64_t now) {
    const struct supervisor *supervisor = feed->supervisor;
    hurry_retired(feed, now);
    if (!feed->loaders_auto || feed->state != FEED_RUNNING || supervisor->stood_still ||
        !all_have_started(feed)) {
        feed->loader_count.began_ns = 0;
        return;
    }
    const struct loader_work work = {
        .samples = counted(feed, LOADER_samples),
        .wait_ns = atomic_load_explicit(&feed->stats->counters[FEED_wait_loaders_ns], memory_order_relaxed),
        .room_ns = counted(feed, LOADER_room_wait_ns),
        .io_ns = counted(feed, LOADER_io_wait_ns),
        .busy_ns = counted(feed, LOADER_fill_ns) + counted(feed, LOADER_decode_ns),
        .cpu_ns = counted(feed, LOADER_cpu_ns),
    };
    const uint32_t most =
        (uint32_t)min_u64(LOADER_COUNT_MOST, feed->loaders_wanted + spare_records(supervisor));
    change(feed,
           loader_count_look(&feed->loader_count, &work, feed->delivery.consumer_count,
                             supervisor->moderation.processors, most, now),
           now);
}
