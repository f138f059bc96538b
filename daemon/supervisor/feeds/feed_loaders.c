#include "daemon/supervisor/feeds/feed_loaders.h"

#include <inttypes.h>
#include <signal.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/delivery/abandoned.h"
#include "daemon/supervisor/feeds/bad_samples.h"
#include "daemon/supervisor/feeds/feed_loaders_count.h"
#include "daemon/supervisor/feeds/prepared_loaders.h"
#include "daemon/supervisor/feeds/sample_caches.h"
#include "daemon/supervisor/feeds/shared_blocks.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "shm/ring_supervisor.h"

void feed_loaders_init(struct served_feed *feed) {
    LIST_INIT(&feed->loaders);
    feed->next_serial = 1;
    feed->loaders_wanted =
        feed_loaders_first(feed->supervisor->config, feed->supervisor->moderation.processors);
    feed->loaders_auto = feed->supervisor->config->loaders == 0;
    loader_count_init(&feed->loader_count, feed->loaders_wanted);
    respawn_init(&feed->respawn, &loader_respawn_policy, monotonic_ns());
}

static void on_changed(struct process *process) {
    served_feed_mark(process->owner);
}

static bool is_taken(const struct served_feed *feed, uint32_t stripe) {
    const struct loader_process *loader;
    LIST_FOREACH(loader, &feed->loaders, link)
        if (loader->stripe == stripe && !loader->process.end_counted)
            return true;
    return false;
}

// Of a loader that has ended or hangs, the one that replaces it gets the stripe.
static uint32_t free_stripe(const struct served_feed *feed) {
    uint32_t stripe = 0;
    while (stripe + 1 < feed->loaders_wanted && is_taken(feed, stripe))
        stripe++;
    return stripe;
}

static int start_one(struct served_feed *feed, struct error *error) {
    struct supervisor *supervisor = feed->supervisor;
    struct loader_process *loader;
    struct cache_fds caches[MIX_MAX_SOURCES];
    sample_caches_fds(feed, caches);
    struct loader_start start = {
        .processes = &supervisor->processes,
        .poll_set = &supervisor->poll_set,
        .stats = supervisor->stats,
        .stats_fd = supervisor->stats_fd,
        .dataset = feed->dataset,
        .feed = feed->id,
        .serial = feed->next_serial,
        .stripe = free_stripe(feed),
        .stripes = feed->loaders_wanted,
        .ring_fd = feed->ring_fd,
        .event_fd = feed->event_fd,
        .caches = caches,
        .queue_depth = (uint32_t)supervisor->config->queue_depth,
        .mapped_limit = supervisor->config->mapped_limit,
        .condemned = &feed->condemned,
        .mix = &feed->shape.mix,
        .mix_shuffle = feed->shape.shuffle,
        .gpu_images = feed->shape.gpu_images,
        .changed = on_changed,
        .owner = feed,
    };
    shared_blocks_lend(feed, &start);
    struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_NEW_PROCESS, feed->id);
    int err = prepared_loaders_start(supervisor, &start, &loader, error);
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

// Of itself: other signals were sent.
static bool has_crashed(const struct process *process) {
    switch (process->exit_signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGSYS:
    case SIGTRAP:
        return true;
    default:
        return false;
    }
}

// The dataset or source that has the stored sample of that number, which becomes its number there. The loader may lie.
static const struct dataset *find_dataset(const struct served_feed *feed, uint64_t *sample) {
    const struct dataset *dataset = feed->dataset;
    for (uint32_t i = 0; i < feed->dataset->layout->part_count; i++) {
        const uint64_t stored = dataset_stored_samples(feed->dataset->sources[i]->layout);
        dataset = feed->dataset->sources[i];
        if (*sample < stored)
            break;
        *sample -= stored;
    }
    return dataset;
}

// It has crashed or hung in a slow stage, if it says so.
static void blame_sample(struct served_feed *feed, const struct loader_process *loader,
                         enum verdict hear(struct condemned *condemned, uint64_t sample)) {
    struct loader_process *other;
    uint64_t staged;
    if (!loader_process_staged(loader, &staged))
        return;
    uint64_t sample = staged;
    const struct dataset *dataset = find_dataset(feed, &sample);
    const char *name = dataset->of ? dataset->of : dataset->name;
    switch (hear(&feed->condemned, staged)) {
    case SAMPLE_SUSPECTED:
        log_warning("loader %" PRIu32 " of feed %" PRIu64 " was working on sample %" PRIu64 " of dataset %s",
                    loader->serial, feed->id, sample, name);
        return;
    case SAMPLE_CONDEMNED:
        supervisor_report(feed->supervisor,
                          "sample %" PRIu64 " of dataset %s has ended loaders of feed %" PRIu64
                          "; it counts as unreadable from now on (on_error)",
                          sample, name, feed->id);
        LIST_FOREACH(other, &feed->loaders, link)
            stats_condemn(other->record, staged);
        return;
    case SAMPLE_ONE_TOO_MANY:
        served_feed_fail(feed, -EIO,
                         "dataset %s: sample %" PRIu64
                         " has ended loaders, as %u others have before; see the daemon's log",
                         name, sample, STATS_CONDEMNED);
    }
}

static void count_end(struct served_feed *feed, const struct loader_process *loader, uint64_t now) {
    bool worked = loader_process_has_worked(loader, !delivery_is_filling(&feed->delivery));
    stats_add(&feed->stats->counters[FEED_children_replaced], 1);
    respawn_died(&feed->respawn, now, loader->process.started_ns, worked);
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
    count_end(feed, loader, now);
    if (has_crashed(process))
        blame_sample(feed, loader, condemned_hear);
    else if (process->exit_signal == SIGKILL && !process->signalled_ns)
        blame_sample(feed, loader, condemned_hear_killed);
    if (respawn_has_given_up(&feed->respawn))
        served_feed_fail(feed, -EIO,
                         "dataset %s: loader processes end as soon as they start; see the daemon's log",
                         feed->dataset->name);
}

static void release(struct served_feed *feed, struct loader_process *loader) {
    int chunks = feed->state == FEED_CLOSING ? 0 : ring_recover(&feed->ring, loader->serial);
    if (loader->left_behind) {
        log_info("loader %" PRIu32 " of feed %" PRIu64 " has ended; the slots that it kept are used again",
                 loader->serial, feed->id);
        feed->loaders_left--;
        abandoned_withdraw(&feed->delivery);
    } else if (chunks > 0) {
        log_info("feed %" PRIu64 ": reading %d chunks of loader %" PRIu32 " again", feed->id, chunks,
                 loader->serial);
    }
    if (loader->retired_ns)
        feed_loaders_report_retired(feed, loader);
    LIST_REMOVE(loader, link);
    bad_samples_hear(feed, loader);
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

// ---- Loaders that hang -------------------------------------------------------------------------------------

// After which a loader that was killed counts as hung: working storage ends a read within that time, also when it is
// busy. If not, little is lost: a few batches are read twice.
#define GRACE_NS (2 * NS_PER_S)
// That hang at a time, for each one that is wanted; but a feed may always have a few. More would take the records and
// the memory of other feeds.
#define LEFT_PER_LOADER 2u
#define LEFT_AT_LEAST   8u

static uint64_t timeout_ns(const struct served_feed *feed) {
    return feed->supervisor->config->loader_timeout_s * NS_PER_S;
}

static bool is_silent(const struct served_feed *feed, const struct loader_process *loader, uint64_t now) {
    return loader_process_silent_ns(loader, now) > timeout_ns(feed);
}

static bool all_are_silent(const struct served_feed *feed, uint64_t now) {
    const struct loader_process *loader;
    LIST_FOREACH(loader, &feed->loaders, link)
        if (loader->process.state == PROCESS_RUNNING && !is_silent(feed, loader, now))
            return false;
    return true;
}

static const char *hung_path(const struct served_feed *feed, char text[DATASET_PATH_TEXT]) {
    return feed->hung_file ? dataset_file_path(feed->dataset, feed->hung_file - 1, text) : "one of its files";
}

// Remembers the file that it waits for. False: it does not wait for any.
static bool see_read(struct served_feed *feed, const struct loader_process *loader, uint64_t now,
                     uint64_t *since) {
    struct loader_read read;
    *since = now - loader_process_silent_ns(loader, now);
    if (!loader_process_read(loader, dataset_file_numbers(feed->dataset), now, &read))
        return false;
    feed->hung_file = read.file + 1;
    *since = now - read.age_ns;
    return true;
}

static void fail_hung(struct served_feed *feed, uint64_t now, uint64_t since, const char *why) {
    char path[DATASET_PATH_TEXT];
    served_feed_fail(feed, -EIO, "dataset %s: a read of %s has not ended for %" PRIu64 " s, %s",
                     feed->dataset->name, hung_path(feed, path), (now - since) / NS_PER_S, why);
}

// A silent loader had `loader_timeout` for a batch that another one had already hung at, or nobody moves any more.
static uint64_t find_unreadable(const struct served_feed *feed, const struct loader_process *loader,
                                uint64_t now) {
    struct hung_batch batch = {.owner = loader->serial, .now = now, .ago_ns = timeout_ns(feed)};
    uint64_t since = abandoned_find(&feed->delivery, &batch);
    batch.owner = 0;
    return since || !all_are_silent(feed, now) ? since : abandoned_find(&feed->delivery, &batch);
}

static void replace_silent(struct served_feed *feed, struct loader_process *loader, uint64_t now) {
    uint64_t since, sample, unreadable = find_unreadable(feed, loader, now);
    bool reads = see_read(feed, loader, now, &since), stages = loader_process_staged(loader, &sample);
    char path[DATASET_PATH_TEXT];
    supervisor_report(
        feed->supervisor,
        "loader %" PRIu32 " of feed %" PRIu64 " has made no progress for %" PRIu64 " s%s%s; it is being %s",
        loader->serial, feed->id, feed->supervisor->config->loader_timeout_s, reads ? ", in a read of " : "",
        reads ? hung_path(feed, path) : "", loader->retired_ns ? "killed" : "replaced");
    abandoned_note(&feed->delivery, loader->serial, now, since);
    process_kill(&loader->process);
    if (stages)
        blame_sample(feed, loader, condemned_hear);
    else if (unreadable)
        fail_hung(feed, now, unreadable, "and no other loader has read it since (loader_timeout)");
}

// It is not waited for any longer: another one takes its place, and its batches are read into other slots.
static void leave_behind(struct served_feed *feed, struct loader_process *loader, uint64_t now) {
    struct process *process = &loader->process;
    char path[DATASET_PATH_TEXT];
    uint64_t since;
    bool reads = see_read(feed, loader, now, &since);
    loader->left_behind = true;
    feed->loaders_left++;
    if (!process->end_counted) {
        process->end_counted = true;
        feed->loaders_running--;
        count_end(feed, loader, now);
    }
    uint32_t batches = abandoned_leave(&feed->delivery, loader->serial, now, since);
    supervisor_report(feed->supervisor,
                      "loader %" PRIu32 " of feed %" PRIu64 " was killed and has not ended: its read of %s"
                      " has not returned for %" PRIu64 " s; reading %" PRIu32 " batch%s again elsewhere",
                      loader->serial, feed->id, reads ? hung_path(feed, path) : "one of its files",
                      (now - since) / NS_PER_S, batches, batches == 1 ? "" : "es");
    if (feed->loaders_left > max_u64(LEFT_AT_LEAST, LEFT_PER_LOADER * (uint64_t)feed->loaders_wanted))
        fail_hung(feed, now, since, "and too many loaders hang in the same way");
}

// A batch that hangs has found no other slot for as long as a read of it might have taken. That counts from when one
// was first looked for: the loader may have been killed long before, if the machine has stood still in between.
static void check_moves(struct served_feed *feed, uint64_t now) {
    const struct hung_batch batch = {.moves = true, .now = now, .ago_ns = timeout_ns(feed)};
    uint64_t since = feed->delivery.moving ? abandoned_find(&feed->delivery, &batch) : 0;
    if (since)
        fail_hung(feed, now, since, "and the ring has no slot left to read its batch into");
}

// All slots that hung loaders have not kept are in the hands of consumers, who wait for the next batch before they
// release any. They have as long as a consumer that holds up others.
static void check_slots(struct served_feed *feed, uint64_t now) {
    uint64_t since = feed->loaders_left ? abandoned_starves(&feed->delivery) : 0;
    if (!since)
        feed->starved_since_ns = 0;
    else if (!feed->starved_since_ns)
        feed->starved_since_ns = now;
    else if (now >= feed->starved_since_ns + max_u64(feed->max_lag_ns, timeout_ns(feed)))
        fail_hung(feed, now, since, "and the ring has no slot left to read the next batch into");
}

void feed_loaders_watch(struct served_feed *feed, uint64_t now) {
    struct loader_process *loader;
    abandoned_excuse(&feed->delivery, now);
    LIST_FOREACH(loader, &feed->loaders, link) {
        struct process *process = &loader->process;
        bad_samples_hear(feed, loader);
        process_watch(process, now, feed->supervisor->config->stop_timeout_s * NS_PER_S);
        if (process->state == PROCESS_RUNNING && is_silent(feed, loader, now))
            replace_silent(feed, loader, now);
        else if (feed->state != FEED_CLOSING && !loader->left_behind &&
                 process_lingers(process, now, GRACE_NS))
            leave_behind(feed, loader, now);
    }
    if (feed->state != FEED_CLOSING)
        check_moves(feed, now);
    if (feed->state != FEED_CLOSING)
        check_slots(feed, now);
    // No loader would find a batch, and none would say so.
    if (feed->delivery.slots && !ring_queue_is_sound(&feed->ring))
        served_feed_fail_damaged(feed);
}

// ---- The end -----------------------------------------------------------------------------------------------

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

void feed_loaders_report_left(struct served_feed *feed, uint64_t now) {
    const struct loader_process *loader;
    char path[DATASET_PATH_TEXT];
    uint64_t since;
    if (feed->making)
        log_error("exiting while the memory of feed %" PRIu64 "'s ring is still being allocated", feed->id);
    LIST_FOREACH(loader, &feed->loaders, link) {
        bool reads = see_read(feed, loader, now, &since);
        log_error("exiting without loader %" PRIu32 " of feed %" PRIu64
                  " (process %d), which was killed and has not ended: its read of %s has not returned for"
                  " %" PRIu64 " s",
                  loader->serial, feed->id, (int)process_pid(&loader->process),
                  reads ? hung_path(feed, path) : "one of its files", (now - since) / NS_PER_S);
    }
}
