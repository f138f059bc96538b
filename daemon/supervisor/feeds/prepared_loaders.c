#include "daemon/supervisor/feeds/prepared_loaders.h"

#include <sys/resource.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/log.h"
#include "daemon/supervisor/feeds/feed_loaders_count.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/processes/loader_prepared.h"

// Starting a process takes half a millisecond, for which a feed that has just been made does not wait.
#define STARTS_PER_TICK 2u
#define PAUSE_NS        (100 * NS_PER_MS) // after a feed has begun
// With fewer processors, so many would wait for each other, not for the feed.
#define PER_PROCESSOR 2u

// They fail for the same reasons as other loaders, but no feed is to be given up.
static const struct respawn_policy policy = {
    .failures_most = UINT32_MAX,
    .start_ns = 1 * NS_PER_S,
    .backoff_first_ns = 200 * NS_PER_MS,
    .backoff_most_ns = 30 * NS_PER_S,
    .at_once = 8,
    .refill_ns = 1 * NS_PER_S,
    .retry_ns = 1 * NS_PER_S,
};

void prepared_loaders_init(struct supervisor *supervisor) {
    LIST_INIT(&supervisor->prepared.list);
    respawn_init(&supervisor->prepared.respawn, &policy, monotonic_ns());
}

static struct prepared_settings settings_now(const struct supervisor *supervisor) {
    return loader_prepared_settings((uint32_t)supervisor->config->queue_depth);
}

static void on_changed(struct process *process) {
    struct supervisor *supervisor = process->owner;
    supervisor->prepared.changed = true;
}

// ---- For a feed --------------------------------------------------------------------------------------------

static struct loader_process *take(struct supervisor *supervisor) {
    const struct prepared_settings settings = settings_now(supervisor);
    struct loader_process *loader;
    supervisor->prepared.taken_ns = monotonic_ns();
    LIST_FOREACH(loader, &supervisor->prepared.list, link)
        if (loader_prepared_fits(loader, &settings)) {
            LIST_REMOVE(loader, link);
            return loader;
        }
    return NULL;
}

int prepared_loaders_start(struct supervisor *supervisor, struct loader_start *start,
                           struct loader_process **started, struct error *error) {
    // Of a dataset with more files, it could not take the descriptors.
    const bool fits = loader_process_numbers(start->dataset) <= ASSIGNMENT_FDS;
    struct loader_process *prepared = start->prepared = fits ? take(supervisor) : NULL;
    int err = loader_process_start(start, started, error);
    if (prepared && (err || *started != prepared)) {
        LIST_INSERT_HEAD(&supervisor->prepared.list, prepared, link);
        loader_prepared_dismiss(prepared);
    }
    return err;
}

// ---- How many there are ------------------------------------------------------------------------------------

uint32_t prepared_loaders_count(const struct supervisor *supervisor) {
    const struct prepared_settings settings = settings_now(supervisor);
    const struct loader_process *loader;
    uint32_t count = 0;
    LIST_FOREACH(loader, &supervisor->prepared.list, link)
        count += loader_prepared_fits(loader, &settings);
    return count;
}

static bool has_descriptors(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= 2 * ASSIGNMENT_FDS;
}

static uint32_t wanted(const struct supervisor *supervisor) {
    const uint32_t processors = supervisor->moderation.processors;
    if (supervisor->state != SUPERVISOR_RUNNING || !supervisor->config->prepare_loaders || !has_descriptors())
        return 0;
    return (uint32_t)min_u64(feed_loaders_first(supervisor->config, processors),
                             PER_PROCESSOR * (uint64_t)processors);
}

static int prepare_one(struct supervisor *supervisor, const struct prepared_settings *settings,
                       struct error *error) {
    struct loader_process *loader;
    const struct loader_preparation preparation = {
        .processes = &supervisor->processes,
        .poll_set = &supervisor->poll_set,
        .settings = settings,
        .owner = supervisor,
        .changed = on_changed,
    };
    struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_NEW_PROCESS, 0);
    int err = loader_prepared_start(&preparation, &loader, error);
    turn_clock_leave(&supervisor->clock, before);
    if (err)
        return err;
    LIST_INSERT_HEAD(&supervisor->prepared.list, loader, link);
    supervisor->prepared.changed = true; // it is offered the next ring
    return 0;
}

static void prepare(struct supervisor *supervisor, const struct prepared_settings *settings, uint32_t missing,
                    uint64_t now) {
    struct error error = {0};
    if (now < supervisor->prepared.taken_ns + PAUSE_NS ||
        !respawn_may_start(&supervisor->prepared.respawn, now))
        return;
    for (uint32_t i = 0; i < missing && i < STARTS_PER_TICK; i++) {
        if (prepare_one(supervisor, settings, &error) == 0)
            continue;
        log_warning("%s", error.text);
        respawn_unspawned(&supervisor->prepared.respawn, now);
        return;
    }
}

void prepared_loaders_tick(struct supervisor *supervisor, uint64_t now) {
    const struct prepared_settings settings = settings_now(supervisor);
    const uint64_t patience_ns = supervisor->config->stop_timeout_s * NS_PER_S;
    uint32_t missing = wanted(supervisor);
    struct loader_process *loader;
    LIST_FOREACH(loader, &supervisor->prepared.list, link) {
        process_watch(&loader->process, now, patience_ns);
        if (missing && loader_prepared_fits(loader, &settings))
            missing--;
        else if (loader->process.state == PROCESS_RUNNING)
            loader_prepared_dismiss(loader);
    }
    prepare(supervisor, &settings, missing, now);
}

// ---- The end -----------------------------------------------------------------------------------------------

static void count_death(struct supervisor *supervisor, struct loader_process *loader, uint64_t now) {
    struct process *process = &loader->process;
    char end[128];
    process->end_counted = true;
    if (process->asked)
        return;
    process_describe_end(process, end, sizeof end);
    log_warning("loader process %d, which waited for a feed, %s", (int)process_pid(process), end);
    respawn_died(&supervisor->prepared.respawn, now, process->started_ns, false);
}

void prepared_loaders_act(struct supervisor *supervisor) {
    struct loader_process *loader, *next;
    uint64_t now = monotonic_ns();
    if (!supervisor->prepared.changed)
        return;
    supervisor->prepared.changed = false;
    LIST_FOREACH_SAFE(loader, &supervisor->prepared.list, link, next) {
        if (process_is_reaped(&loader->process) && !loader->process.end_counted)
            count_death(supervisor, loader, now);
        if (loader->assignment_fd >= 0 && loader->process.state == PROCESS_RUNNING)
            prepared_ring_offer(supervisor, loader);
        if (loader->process.state != PROCESS_GONE)
            continue;
        LIST_REMOVE(loader, link);
        process_release(&loader->process);
    }
}

void prepared_loaders_end(struct supervisor *supervisor, bool kill) {
    struct loader_process *loader;
    LIST_FOREACH(loader, &supervisor->prepared.list, link) {
        if (kill)
            process_kill(&loader->process);
        else
            loader_prepared_dismiss(loader);
    }
}
