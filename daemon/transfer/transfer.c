#include "daemon/transfer/transfer.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/error.h"
#include "base/queue.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/confine/confine.h"
#include "daemon/confine/limits.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/role.h"
#include "daemon/transfer/engine.h"
#include "daemon/transfer/pools.h"
#include "daemon/transfer/reporting.h"
#include "gpu/gpu_cuda_ranges.h"
#include "shm/ring_loader.h"
#include "shm/stats.h"

#define BEAT_NS        (100 * NS_PER_MS)
#define LISTEN_NS      (1 * NS_PER_MS) // how often to look for messages while copies are in progress
#define SLEEP_MS       200             // at most; between sleeps come the heartbeat and a check for SIGTERM
#define NAP_LEAST_NS   UINT64_C(3000)
#define NAP_MOST_NS    UINT64_C(100000) // while copies are in progress
#define NAP_RELEASE_NS UINT64_C(20000)  // first nap when all that is left waits for consumers' streams
#define NAP_PATIENT_NS UINT64_C(1000000)
#define NAP_SLACK_NS   1000ul // the kernel's own is 50 us
#define BUS_GUESS      50     // bytes a ns, until it is measured
#define LAG_REPORT_NS  (1000 * NS_PER_MS)
#define TEXT_MOST      255 // of why there is no engine

struct transfer {
    const struct transfer_settings *settings;
    struct stats_gpu *stats;
    struct trace_writer trace;
    struct gpu_clock clock;
    struct pool_set pools;
    struct gpu_watch watch;
    bool in_driver;
    uint64_t beat_ns, listened_ns, stepped_ns;
    uint64_t nap_ns; // the last one while waiting for releases
    struct error failure;
};

// ---- From the supervisor -----------------------------------------------------------------------------------

static int listen_to_supervisor(struct transfer *transfer, uint64_t now) {
    struct transfer_request request;
    int fds[CONTROL_MAX_DESCRIPTORS];
    struct received_fds received = receive_into(fds, CONTROL_MAX_DESCRIPTORS);
    int got;
    transfer->listened_ns = now;
    while ((got = control_receive(HERITAGE_CONTROL, &request, sizeof request, &received)) == 1) {
        pools_handle(&transfer->pools, &request, fds, received.count);
        received.count = 0;
    }
    received_fds_close(&received);
    return got < 0 ? error_set(&transfer->failure, got, "the supervisor is gone: %s", strerror(-got)) : 0;
}

// ---- Copying -----------------------------------------------------------------------------------------------

struct activity {
    uint64_t bytes_under_way;
    bool waiting; // for consumers' streams, or for the engine to be done with a pool that ends
};

static void report_lag(struct device_ring *pool, uint64_t now) {
    uint64_t since[RING_MAX_CONSUMERS];
    if (!pool->copies.waiting_count || now < pool->reported_lag_ns + LAG_REPORT_NS)
        return;
    pool->reported_lag_ns = now;
    for (uint64_t rest = copies_held_up(&pool->copies, now - LAG_REPORT_NS, since); rest; rest &= rest - 1) {
        struct transfer_report more = {.consumer = (uint32_t)__builtin_ctzll(rest)};
        more.waited_ns = now - since[more.consumer];
        reporting_send(TRANSFER_LAGGING, pool->id, NULL, &more, -1);
    }
}

static void count_time(struct transfer *transfer, const struct activity *activity, uint64_t now) {
    uint64_t passed = now - transfer->stepped_ns;
    transfer->stepped_ns = now;
    if (activity->bytes_under_way)
        stats_add(&transfer->stats->counters[GPU_copying_ns], passed);
    else if (activity->waiting)
        stats_add(&transfer->stats->counters[GPU_release_wait_ns], passed);
}

// Of one feed; the others continue.
static void refuse_pool(struct transfer *transfer, struct device_ring *pool) {
    if (transfer->failure.code == POOL_REFUSED)
        transfer->failure.code = -EIO; // as where a loader cannot decode it
    pools_end(&transfer->pools, pool, TRANSFER_POOL_REFUSED, &transfer->failure);
    transfer->failure = (struct error){0};
}

static int step_all(struct transfer *transfer, uint64_t now, struct activity *activity) {
    struct device_ring *pool, *next;
    *activity = (struct activity){0};
    LIST_FOREACH_SAFE(pool, &transfer->pools.list, link, next) {
        struct copies *copies = &pool->copies;
        uint64_t copied = copies->copied, bytes = copies->copied_bytes;
        bool wake = false;
        if (!pool->open)
            continue;
        int err = copies_step(copies, now, &wake, &transfer->failure);
        if (err == POOL_REFUSED) {
            refuse_pool(transfer, pool);
            continue;
        }
        if (err)
            return err;
        if (wake)
            device_ring_wake(pool);
        stats_add(&transfer->stats->counters[GPU_copies], copies->copied - copied);
        stats_add(&transfer->stats->counters[GPU_copied_bytes], copies->copied_bytes - bytes);
        activity->bytes_under_way += copies->bytes_under_way;
        activity->waiting |= copies->waiting_count > 0;
        report_lag(pool, now);
        device_ring_tell_images(pool, now);
    }
    return 0;
}

// ---- Sleeping ----------------------------------------------------------------------------------------------

static void nap(uint64_t ns) {
    struct timespec time = {.tv_nsec = (long)ns};
    nanosleep(&time, NULL);
}

// Sleeps until the first of the copies may be done. A GPU does not wake a process, and having its driver do so costs
// more than polling.
static void nap_for_copies(const struct transfer *transfer, uint64_t bytes) {
    uint64_t speed = atomic_load_explicit(&transfer->stats->bus_bytes_per_s, memory_order_relaxed);
    uint64_t ns = bytes / (speed >= NS_PER_S ? speed / NS_PER_S : BUS_GUESS);
    nap(max_u64(NAP_LEAST_NS, min_u64(ns / 4, NAP_MOST_NS)));
}

static void nap_for_releases(struct transfer *transfer) {
    transfer->nap_ns = transfer->nap_ns ? min_u64(transfer->nap_ns * 5 / 4, NAP_PATIENT_NS) : NAP_RELEASE_NS;
    nap(transfer->nap_ns);
}

// Sleeps until the supervisor has dispatched something or sent a message.
static void sleep_for_work(struct transfer *transfer) {
    struct pollfd sources[] = {{.fd = HERITAGE_CONTROL, .events = POLLIN},
                               {.fd = HERITAGE_WAKE, .events = POLLIN}};
    struct device_ring *pool;
    uint64_t count;
    LIST_FOREACH(pool, &transfer->pools.list, link)
        if (pool->open && ring_announce_sleep(&pool->ring))
            return;
    if (poll(sources, COUNT_OF(sources), SLEEP_MS) <= 0)
        return;
    if (sources[0].revents)
        transfer->listened_ns = 0;
    if (sources[1].revents && read(HERITAGE_WAKE, &count, sizeof count) < 0 && errno != EAGAIN)
        log_warning("cannot read the eventfd: %m");
}

// ---- Running -----------------------------------------------------------------------------------------------

// The driver may take its time, and so may the engine for its first job. The supervisor waits for that longer than for
// anything else.
static void show_life(const struct transfer *transfer, uint64_t now) {
    const struct engine_queue *engine = transfer->pools.engine;
    const uint64_t in_driver = transfer->in_driver || engine_queue_warms_up(engine);
    atomic_store_explicit(&transfer->stats->heartbeat_ns, engine_queue_moved_ns(engine, now),
                          memory_order_relaxed);
    atomic_store_explicit(&transfer->stats->in_driver, in_driver, memory_order_release); // see shm/layout.h
}

static void beat(struct transfer *transfer, uint64_t now) {
    if (now < transfer->beat_ns + BEAT_NS)
        return;
    transfer->beat_ns = now;
    pools_count(&transfer->pools);
    show_life(transfer, now);
}

static void driver_begins(struct gpu_watch *watch) {
    struct transfer *transfer = CONTAINER_OF(watch, struct transfer, watch);
    transfer->in_driver = true;
    atomic_store_explicit(&transfer->stats->in_driver, 1, memory_order_relaxed);
}

static void driver_ended(struct gpu_watch *watch) {
    struct transfer *transfer = CONTAINER_OF(watch, struct transfer, watch);
    transfer->in_driver = false;
    show_life(transfer, monotonic_ns());
}

static int serve(struct transfer *transfer) {
    transfer->stepped_ns = monotonic_ns();
    while (!role_stopping) {
        struct activity activity;
        uint64_t now = monotonic_ns();
        beat(transfer, now);
        int err = now >= transfer->listened_ns + LISTEN_NS ? listen_to_supervisor(transfer, now) : 0;
        if (!err)
            err = step_all(transfer, now, &activity);
        if (err)
            return err;
        count_time(transfer, &activity, now);
        activity.waiting |= pools_end_settled(&transfer->pools);
        if (!activity.waiting || activity.bytes_under_way)
            transfer->nap_ns = 0;
        if (pools_prepare_one(&transfer->pools))
            continue;
        if (activity.bytes_under_way)
            nap_for_copies(transfer, activity.bytes_under_way);
        else if (activity.waiting)
            nap_for_releases(transfer);
        else
            sleep_for_work(transfer);
    }
    return 0;
}

static enum transfer_engine open_engine(struct transfer *transfer, struct error *why) {
    int err = engine_queue_open(&transfer->pools.engine, transfer->pools.gpu, why);
    if (!err)
        return ENGINE_WORKS;
    if (err == -ENOTSUP)
        return ENGINE_MISSING;
    error_prefix(why, "the engine could not be opened, and is tried again when no feed uses the GPU");
    return ENGINE_FAILED;
}

// The name of the GPU, and behind it, why there is no engine.
static void report_ready(struct transfer *transfer) {
    struct transfer_report ready = {0};
    struct error why = {0};
    int length = snprintf(ready.text, sizeof ready.text, "%s", transfer->pools.gpu->name);
    if (transfer->settings->decodes)
        ready.engine = open_engine(transfer, &why);
    snprintf(ready.text + length + 1, sizeof ready.text - (size_t)length - 1, "%.*s", TEXT_MOST, why.text);
    beat(transfer, monotonic_ns()); // from READY on, the supervisor expects one every loader_timeout
    reporting_send(TRANSFER_READY, 0, NULL, &ready, -1);
}

static int open_gpu(struct transfer *transfer, struct error *error) {
    uint64_t free_bytes = 0;
    if (transfer->settings->decodes)
        engine_use_connections();
    int err = gpu_open(&transfer->pools.gpu, transfer->settings->uuid, error);
    if (err)
        return err;
    transfer->pools.gpu->watch = &transfer->watch;
    // Under another spelling, the supervisor would treat it as a separate GPU with its own memory budget.
    if (strcmp(transfer->pools.gpu->uuid, transfer->settings->uuid) != 0)
        return error_set(error, -EINVAL, "this GPU is called %s", transfer->pools.gpu->uuid);
    err = gpu_free_bytes(transfer->pools.gpu, &free_bytes, error);
    if (err)
        return err;
    log_info("%s, %s, %" PRIu64 " MiB free of %" PRIu64, transfer->pools.gpu->name, transfer->pools.gpu->uuid,
             free_bytes >> 20, transfer->pools.gpu->memory_bytes >> 20);
    pools_count(&transfer->pools);
    report_ready(transfer);
    return 0;
}

static int open_confined(struct transfer *transfer, struct error *error) {
    gpu_ranges_open();
    uint64_t confined = confine_transfer_early();
    int err = open_gpu(transfer, error);
    if (!err)
        atomic_store_explicit(&transfer->stats->confined, confine_transfer(confined), memory_order_relaxed);
    return err;
}

static int start(struct transfer *transfer, struct error *error) {
    const void *settings;
    int err = role_map(HERITAGE_SETTINGS, "settings", sizeof(struct transfer_settings), &settings, error);
    if (err)
        return err;
    transfer->settings = settings;
    log_open("transfer", (enum log_level)transfer->settings->log_level);
    confine_set(transfer->settings->confine);
    limits_volunteer(LIMITS_TRANSFER_POINTS);
    prctl(PR_SET_TIMERSLACK, NAP_SLACK_NS);
    err = role_tie(transfer->settings->supervisor_pid, error);
    if (!err)
        err =
            stats_map_gpu(HERITAGE_TRANSFER_STATS, transfer->settings->stats_record, &transfer->stats, error);
    if (!err)
        err = trace_writer_open(HERITAGE_TRANSFER_STATS, TRACE_GPU(transfer->settings->stats_record),
                                (uint32_t)getpid(), 0, &transfer->trace, error);
    transfer->pools.stats = transfer->stats;
    close(HERITAGE_TRANSFER_STATS); // see loader.c
    return err ? err : open_confined(transfer, error);
}

int transfer_run(void) {
    struct transfer transfer = {0};
    LIST_INIT(&transfer.pools.list);
    LIST_INIT(&transfer.pools.ending);
    transfer.pools.trace = &transfer.trace;
    transfer.pools.clock = &transfer.clock;
    transfer.watch = (struct gpu_watch){driver_begins, driver_ended};
    log_open("transfer", LOG_LEVEL_INFO);
    prctl(PR_SET_NAME, "feedd-transfer");
    int err = start(&transfer, &transfer.failure);
    if (!err)
        err = serve(&transfer);
    if (err) {
        log_error("%s", transfer.failure.text);
        reporting_send(TRANSFER_LOST, 0, &transfer.failure, NULL, -1);
        // Exit without running the driver's exit handlers; the process's GPU resources go with it.
        _exit(EXIT_FAILURE);
    }
    pools_close_all(&transfer.pools);
    gpu_clock_close(&transfer.clock);
    gpu_close(transfer.pools.gpu);
    return EXIT_SUCCESS;
}
