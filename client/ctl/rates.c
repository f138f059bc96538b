#include "client/ctl/rates.h"

#include <string.h>

#include "base/sizes.h"

// Counters only grow, but a reader may see those of a loader between two of its additions.
static uint64_t grown(uint64_t before, uint64_t after) {
    return after > before ? after - before : 0;
}

static double share_of(uint64_t ns, uint64_t workers, double seconds) {
    double share = (double)ns / 1e9 / ((double)(workers ? workers : 1) * seconds);
    return share < 1 ? share : 1; // a long wait is counted when it ends, and may have begun earlier
}

static double seconds_between(uint64_t before_ns, uint64_t after_ns) {
    double seconds = (double)grown(before_ns, after_ns) / 1e9;
    return seconds < 1e-6 ? 1e-6 : seconds;
}

// With `decode gpu`, for whatever reason.
static uint64_t unfit(const struct stats_feed_snapshot *feed) {
    static const enum loader_counter reasons[] = {LOADER_unfit_format,  LOADER_unfit_coding,
                                                  LOADER_unfit_colours, LOADER_unfit_ending,
                                                  LOADER_unfit_size,    LOADER_unfit_steps};
    uint64_t images = 0;
    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        images += feed->loader[reasons[i]];
    return images;
}

void rates_between(const struct stats_feed_snapshot *before, const struct stats_feed_snapshot *after,
                   uint64_t before_ns, uint64_t after_ns, struct feed_rates *rates) {
    static const struct stats_feed_snapshot nothing;
    if (!before) {
        before = &nothing;
        before_ns = after->started_ns;
    }
    double seconds = seconds_between(before_ns, after_ns);
#define FEED_GROWN(name)   grown(before->feed[FEED_##name], after->feed[FEED_##name])
#define LOADER_GROWN(name) grown(before->loader[LOADER_##name], after->loader[LOADER_##name])
    *rates = (struct feed_rates){
        .seconds = seconds,
        .samples_per_s = (double)FEED_GROWN(samples) / seconds,
        .batches_per_s = (double)FEED_GROWN(batches) / seconds,
        .bytes_per_s = (double)FEED_GROWN(bytes) / seconds,
        .read_bytes_per_s = (double)LOADER_GROWN(bytes) / seconds,
        .cached_per_s = (double)LOADER_GROWN(cached) / seconds,
        .engine_per_s = (double)FEED_GROWN(engine_images) / seconds,
        .unfit_per_s = (double)grown(unfit(before), unfit(after)) / seconds,
        .ring_full = after->slot_count ? (double)after->slots_ready / (double)after->slot_count : 0,
        .room_wait = share_of(LOADER_GROWN(room_wait_ns), after->loaders, seconds),
        .io_wait = share_of(LOADER_GROWN(io_wait_ns), after->loaders, seconds),
        .consumer_wait = share_of(FEED_GROWN(consumer_wait_ns), after->consumers, seconds),
        .batches = FEED_GROWN(batches),
        .read_errors = LOADER_GROWN(read_errors),
        .skipped = LOADER_GROWN(skipped),
        .children_replaced = FEED_GROWN(children_replaced),
        .consumers_detached = FEED_GROWN(consumers_detached),
    };
}

bool rates_have_bus(const char *uuid, uint64_t bus_bytes_per_s) {
    return bus_bytes_per_s && strncmp(uuid, "HOST-", 5) != 0;
}

void rates_of_gpu(const struct stats_gpu_snapshot *before, const struct stats_gpu_snapshot *after,
                  uint64_t before_ns, uint64_t after_ns, struct gpu_rates *rates) {
    static const struct stats_gpu_snapshot nothing;
    if (!before) {
        before = &nothing;
        before_ns = after->started_ns;
    }
    double seconds = seconds_between(before_ns, after_ns);
#define GPU_GROWN(name) grown(before->counters[GPU_##name], after->counters[GPU_##name])
    double bytes_per_s = (double)GPU_GROWN(copied_bytes) / seconds;
    *rates = (struct gpu_rates){
        .seconds = seconds,
        .copies_per_s = (double)GPU_GROWN(copies) / seconds,
        .bytes_per_s = bytes_per_s,
        .busy = share_of(GPU_GROWN(copying_ns), 1, seconds),
        .release_wait = share_of(GPU_GROWN(release_wait_ns), 1, seconds),
        .bus = rates_have_bus(after->uuid, after->bus_bytes_per_s)
                   ? bytes_per_s / (double)after->bus_bytes_per_s
                   : 0,
        .copies = GPU_GROWN(copies),
        .processes_replaced = GPU_GROWN(processes_replaced),
    };
}

enum daemon_state rates_daemon_state(const struct stats_snapshot *snapshot, bool process_exists) {
    if (snapshot->stopped)
        return DAEMON_STOPPED;
    if (!process_exists)
        return DAEMON_GONE;
    bool wedged = grown(snapshot->heartbeat_ns, snapshot->taken_ns) > DAEMON_WEDGED_NS;
    return wedged ? DAEMON_WEDGED : DAEMON_ALIVE;
}

const char *daemon_state_name(enum daemon_state state) {
    static const char *const names[] = {"alive", "stopped", "gone", "wedged"};
    return names[state];
}
