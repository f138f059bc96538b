#include "daemon/supervisor/feeds/feed_loaders.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/time.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "shm/ring_supervisor.h"

void feed_loaders_init(struct served_feed *feed) {
    LIST_INIT(&feed->loaders);
    feed->next_serial = 1;
    feed->loaders_wanted = (uint32_t)feed->supervisor->config->loaders;
    respawn_init(&feed->respawn, &loader_respawn_policy, monotonic_ns());
}

static void on_changed(struct process *process) {
    served_feed_mark(process->owner);
}

static int start_one(struct served_feed *feed, struct error *error) {
    struct supervisor *supervisor = feed->supervisor;
    struct loader_process *loader;
    struct loader_start start = {
        .processes = &supervisor->processes,
        .poll_set = &supervisor->poll_set,
        .stats = supervisor->stats,
        .stats_fd = supervisor->stats_fd,
        .dataset = feed->dataset,
        .feed = feed->id,
        .serial = feed->next_serial,
        .ring_fd = feed->ring_fd,
        .event_fd = feed->event_fd,
        .queue_depth = (uint32_t)supervisor->config->queue_depth,
        .mapped_limit = supervisor->config->mapped_limit,
        .changed = on_changed,
        .owner = feed,
    };
    struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_NEW_PROCESS, feed->id);
    int err = loader_process_start(&start, &loader, error);
    turn_clock_leave(&supervisor->clock, before);
    if (err)
        return err;
    feed->next_serial++;
    feed->loaders_running++;
    LIST_INSERT_HEAD(&feed->loaders, loader, link);
    return 0;
}

void feed_loaders_start(struct served_feed *feed) {
    struct error error = {0};
    uint64_t now = monotonic_ns();
    if (feed->state == FEED_CLOSING || !feed->ring.header || !respawn_may_start(&feed->respawn, now))
        return;
    while (feed->loaders_running < feed->loaders_wanted) {
        if (!feed->supervisor->starts_left) {
            served_feed_mark(feed);
            feed->supervisor->again = true;
            return;
        }
        feed->supervisor->starts_left--;
        if (start_one(feed, &error) == 0)
            continue;
        supervisor_report(feed->supervisor, "feed %" PRIu64 ": %s", feed->id, error.text);
        respawn_unspawned(&feed->respawn, now);
        return;
    }
}

// It has been reaped. Its chunks are taken back once none of its reads can write to the ring any more.
static void count_death(struct served_feed *feed, struct loader_process *loader, uint64_t now) {
    struct process *process = &loader->process;
    char end[128];
    process->end_counted = true;
    feed->loaders_running--;
    if (process->asked) {
        log_debug("loader %" PRIu32 " of feed %" PRIu64 " has ended", loader->serial, feed->id);
        return;
    }
    process_describe_end(process, end, sizeof end);
    supervisor_report(feed->supervisor, "loader %" PRIu32 " of feed %" PRIu64 " %s", loader->serial, feed->id,
                      end);
    if (feed->state == FEED_CLOSING)
        return;
    stats_add(&feed->stats->counters[FEED_children_replaced], 1);
    respawn_died(&feed->respawn, now, process->started_ns, loader_process_has_worked(loader));
    if (respawn_has_given_up(&feed->respawn))
        served_feed_fail(feed, -EIO,
                         "dataset %s: loader processes end as soon as they start; see the daemon's log",
                         feed->dataset->name);
}

static void release(struct served_feed *feed, struct loader_process *loader) {
    int chunks = feed->state == FEED_CLOSING ? 0 : ring_recover(&feed->ring, loader->serial);
    if (chunks > 0)
        log_info("feed %" PRIu64 ": reading %d chunks of loader %" PRIu32 " again", feed->id, chunks,
                 loader->serial);
    LIST_REMOVE(loader, link);
    loader_process_retire(loader, feed->stats);
}

void feed_loaders_act(struct served_feed *feed) {
    struct loader_process *loader, *next;
    uint64_t now = monotonic_ns();
    LIST_FOREACH_SAFE(loader, &feed->loaders, link, next) {
        if (process_is_reaped(&loader->process) && !loader->process.end_counted)
            count_death(feed, loader, now);
        if (loader->process.state == PROCESS_GONE)
            release(feed, loader);
    }
    feed_loaders_start(feed);
}

void feed_loaders_watch(struct served_feed *feed, uint64_t now) {
    const struct config *config = feed->supervisor->config;
    struct loader_process *loader;
    LIST_FOREACH(loader, &feed->loaders, link) {
        struct process *process = &loader->process;
        process_watch(process, now, config->stop_timeout_s * NS_PER_S);
        if (process->state != PROCESS_RUNNING ||
            loader_process_silent_ns(loader, now) <= config->loader_timeout_s * NS_PER_S)
            continue;
        supervisor_report(feed->supervisor,
                          "loader %" PRIu32 " of feed %" PRIu64 " has not moved for %" PRIu64
                          " s; it is being replaced",
                          loader->serial, feed->id, config->loader_timeout_s);
        process_kill(process);
    }
}

void feed_loaders_end(struct served_feed *feed, bool kill) {
    struct loader_process *loader;
    LIST_FOREACH(loader, &feed->loaders, link) {
        if (!kill) {
            process_stop(&loader->process);
            continue;
        }
        log_warning("loader %" PRIu32 " of feed %" PRIu64 " does not end; killing it", loader->serial,
                    feed->id);
        process_kill(&loader->process);
    }
}
