#include "daemon/supervisor/feeds/device.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/pool.h"
#include "daemon/supervisor/processes/transfer_process.h"
#include "shm/stats.h"

#define FAILURES_MOST    5u // in a row, then the consumers are told
#define CRASHES_MOST     5u // while one pool was opened
#define BACKOFF_FIRST_NS (100 * NS_PER_MS)
#define BACKOFF_MOST_NS  (30000 * NS_PER_MS)
#define STARTING_MOST_NS (120000 * NS_PER_MS) // drivers can take long to wake up many GPUs

static_assert(GPU_UUID_BYTES <= STATS_NAME, "a UUID fits into a record of the statistics");

static struct stats_gpu *record_of(const struct device *device) {
    return &device->supervisor->stats->gpus[device->record];
}

static void set_state(struct device *device, enum gpu_state state) {
    device->state = state;
    atomic_store_explicit(&record_of(device)->state, state, memory_order_relaxed);
}

// ---- Making and freeing ------------------------------------------------------------------------------------

static int find_record(const struct supervisor *supervisor, uint32_t *record, struct error *error) {
    for (*record = 0; *record < STATS_MAX_GPUS; ++*record)
        if (!supervisor->stats->gpus[*record].used)
            return 0;
    return error_set(error, -EBUSY, "this daemon delivers to %u GPUs already, the most it can",
                     STATS_MAX_GPUS);
}

static void clear_gauges(struct stats_gpu *gpu) {
    atomic_store_explicit(&gpu->pid, 0, memory_order_relaxed);
    atomic_store_explicit(&gpu->pinned_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&gpu->pool_bytes, 0, memory_order_relaxed);
}

static void publish(const struct device *device) {
    struct stats_gpu *gpu = record_of(device);
    stats_gpu_write_begin(gpu);
    clear_gauges(gpu);
    for (int i = 0; i < GPU_COUNTERS; i++)
        atomic_store_explicit(&gpu->counters[i], 0, memory_order_relaxed);
    atomic_store_explicit(&gpu->bus_bytes_per_s, 0, memory_order_relaxed);
    atomic_store_explicit(&gpu->pools, 0, memory_order_relaxed);
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", device->uuid);
    gpu->name[0] = 0;
    gpu->used = monotonic_ns();
    stats_gpu_write_end(gpu);
}

static void free_device(struct device *device) {
    struct supervisor *supervisor = device->supervisor;
    struct stats_gpu *gpu = record_of(device);
    LIST_REMOVE(device, link);
    close_fd(&device->wake_fd);
    stats_gpu_write_begin(gpu);
    gpu->used = 0;
    stats_gpu_write_end(gpu);
    free(device);
    supervisor_check_done(supervisor);
}

static int start_process(struct device *device, struct error *error) {
    set_state(device, GPU_STARTING);
    device->killed_ns = 0;
    device->told = false;
    return transfer_process_start(device, &device->process, error);
}

static int make_device(struct supervisor *supervisor, const char *uuid, struct device **made,
                       struct error *error) {
    uint32_t record;
    int err = find_record(supervisor, &record, error);
    struct device *device = err ? NULL : calloc(1, sizeof *device);
    if (!device)
        return err ? err : error_set(error, -ENOMEM, "out of memory");
    device->supervisor = supervisor;
    device->record = record;
    device->idle_since_ns = monotonic_ns();
    snprintf(device->uuid, sizeof device->uuid, "%s", uuid);
    device->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (device->wake_fd < 0) {
        free(device);
        return error_set(error, -errno, "cannot make an eventfd: %m");
    }
    LIST_INSERT_HEAD(&supervisor->devices, device, link);
    publish(device);
    err = start_process(device, error);
    if (err) {
        free_device(device);
        return err;
    }
    *made = device;
    return 0;
}

int device_get(struct supervisor *supervisor, const char *uuid, struct device **device, struct error *error) {
    struct device *known;
    LIST_FOREACH(known, &supervisor->devices, link)
        if (strcmp(known->uuid, uuid) == 0 && known->state != GPU_STOPPING) {
            *device = known;
            return 0;
        }
    return make_device(supervisor, uuid, device, error);
}

uint64_t device_promised_bytes(const struct device *device) {
    const struct pool *pool;
    uint64_t bytes = 0;
    LIST_FOREACH(pool, &device->pools, device_link)
        if (pool->state != POOL_CLOSING)
            bytes += pool->planned_bytes;
    return bytes;
}

// ---- To the transfer process -------------------------------------------------------------------------------

bool device_send(struct device *device, const struct transfer_request *request, const int *fds,
                 uint32_t count) {
    return device->state == GPU_RUNNING && device->process &&
           transfer_process_send(device->process, request, fds, count);
}

void device_wake(const struct device *device) {
    const uint64_t one = 1;
    if (write(device->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_warning("cannot wake the transfer process of %s: %m", device->uuid);
}

// ---- From it -----------------------------------------------------------------------------------------------

static struct pool *find_pool(const struct device *device, uint32_t id) {
    struct pool *pool;
    LIST_FOREACH(pool, &device->pools, device_link)
        if (pool->id == id)
            return pool;
    return NULL;
}

static bool is_served(const struct pool *pool) {
    return pool->state != POOL_CLOSING;
}

// A pool whose opening is what ends the process would end it for ever, and take the others' along.
static bool is_crashing(const struct pool *pool) {
    return is_served(pool) && pool->crashes >= CRASHES_MOST;
}

// One that fails may take others along, with a feed that then closes.
static void fail_pools(struct device *device, bool (*wanted)(const struct pool *), int code,
                       const char *text) {
    struct pool *pool;
    do {
        LIST_FOREACH(pool, &device->pools, device_link)
            if (wanted(pool))
                break;
        if (pool)
            pool_fail(pool, code, text);
    } while (pool);
}

static void ready(struct device *device, const char *name) {
    struct stats_gpu *gpu = record_of(device);
    struct pool *pool, *next;
    stats_gpu_write_begin(gpu);
    snprintf(gpu->name, sizeof gpu->name, "%.*s", (int)sizeof gpu->name - 1, name);
    stats_gpu_write_end(gpu);
    set_state(device, GPU_RUNNING);
    for (pool = LIST_FIRST(&device->pools); pool; pool = next) {
        next = LIST_NEXT(pool, device_link);
        pool_ask(pool);
    }
}

static void lost(struct device *device, const struct transfer_report *report) {
    struct error error = {0};
    device->lost = (struct error){.code = report->code < 0 && report->code > -4096 ? report->code : -EIO};
    snprintf(device->lost.text, sizeof device->lost.text, "%.*s", (int)sizeof report->text - 1, report->text);
    error_set(&error, device->lost.code, "GPU %s: %s", device->uuid, device->lost.text);
    supervisor_report(device->supervisor, "%s", error.text);
    fail_pools(device, is_served, error.code, error.text);
}

void device_heard(struct device *device, const struct transfer_report *report, int fd) {
    struct pool *pool = find_pool(device, report->pool);
    char text[sizeof report->text];
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, report->text);
    switch (report->kind) {
    case TRANSFER_READY:
        ready(device, text);
        break;
    case TRANSFER_POOL_OPEN:
        device->failures = 0;
        if (pool) {
            pool_opened(pool, report->memory_bytes, fd);
            return;
        }
        break;
    case TRANSFER_POOL_REFUSED:
        if (pool) {
            pool->known = false;
            pool_fail(pool, report->code, text);
        }
        break;
    case TRANSFER_POOL_CLOSED:
        if (pool)
            pool_closed(pool);
        break;
    case TRANSFER_CONSUMER_REMOVED:
        if (pool)
            pool_removed(pool, report->consumer);
        break;
    case TRANSFER_CONSUMER_REFUSED:
        if (pool)
            pool_refused(pool, report->consumer, report->code, text);
        break;
    case TRANSFER_LAGGING:
        if (pool)
            pool_lagging(pool, report->consumer, report->waited_ns);
        break;
    case TRANSFER_LOST:
        lost(device, report);
        break;
    default:
        log_warning("report %" PRIu32 " of a transfer process is unknown", report->kind);
    }
    close_fd(&fd);
}

// Who waits for the GPU is told once its process has failed so often in a row; whoever asks later starts it again.
static void give_up_if_due(struct device *device, int code, const char *why) {
    struct error error = {0};
    if (device->failures < FAILURES_MOST)
        return;
    error_set(&error, code, "GPU %s: its transfer process failed %" PRIu32 " times in a row: %s",
              device->uuid, device->failures, why);
    fail_pools(device, is_served, error.code, error.text);
}

void device_process_ended(struct device *device, bool asked, uint64_t lived_ns) {
    struct pool *pool, *next;
    bool was_ready = device->state == GPU_RUNNING && !device->lost.code;
    device->process = NULL;
    clear_gauges(record_of(device));
    for (pool = LIST_FIRST(&device->pools); pool; pool = next) {
        next = LIST_NEXT(pool, device_link);
        pool_transfer_died(pool);
    }
    if (asked || device->supervisor->state >= SUPERVISOR_STOPPING) {
        fail_pools(device, is_served, -ESHUTDOWN, "feedd is stopping");
        free_device(device);
        return;
    }
    stats_add(&record_of(device)->counters[GPU_processes_replaced], 1);
    fail_pools(device, is_crashing, -EIO, "the transfer process has died each time that it opened the pool");
    device->failures = was_ready ? 1 : device->failures + 1;
    give_up_if_due(device, device->lost.code ? device->lost.code : -ENODEV,
                   device->lost.code ? device->lost.text : "see the daemon's log");
    device->lost = (struct error){0};
    set_state(device, GPU_BACKING_OFF);
    uint64_t pause = lived_ns < NS_PER_S ? BACKOFF_FIRST_NS : 0;
    if (device->failures > 1)
        pause = BACKOFF_FIRST_NS << min_u64(device->failures - 1, 10);
    device->respawn_at_ns = monotonic_ns() + min_u64(pause, BACKOFF_MOST_NS);
    device_watch(device, monotonic_ns());
}

// ---- Watching ----------------------------------------------------------------------------------------------

// A driver that hangs keeps a process even from being killed.
static void watch_killed(struct device *device, uint64_t now) {
    char text[256];
    if (!device->killed_ns)
        device->killed_ns = now;
    if (device->told || now < device->killed_ns + device->supervisor->config->stop_timeout_s * NS_PER_S)
        return;
    device->told = true;
    snprintf(text, sizeof text, "GPU %s: its transfer process was killed and does not end: the driver hangs",
             device->uuid);
    supervisor_report(device->supervisor, "%s", text);
    fail_pools(device, is_served, -EIO, text);
}

static void watch_process(struct device *device, uint64_t now) {
    const struct supervisor *supervisor = device->supervisor;
    if (transfer_process_killed(device->process)) {
        watch_killed(device, now);
        return;
    }
    uint64_t started = transfer_process_started_ns(device->process);
    uint64_t beat =
        max_u64(started, atomic_load_explicit(&record_of(device)->heartbeat_ns, memory_order_relaxed));
    uint64_t patience =
        device->state == GPU_STARTING ? STARTING_MOST_NS : supervisor->config->loader_timeout_s * NS_PER_S;
    if (now <= beat + patience)
        return;
    supervisor_report(device->supervisor,
                      "the transfer process of GPU %s has not moved for %" PRIu64 " s; it is replaced",
                      device->uuid, patience / NS_PER_S);
    transfer_process_kill(device->process);
}

static void stop_process(struct device *device) {
    set_state(device, GPU_STOPPING);
    device->stopping_since_ns = monotonic_ns();
    if (device->process) {
        transfer_process_stop(device->process);
        device_wake(device); // a driver's thread may have got the signal, and not the one that sleeps
    } else {
        free_device(device);
    }
}

void device_watch(struct device *device, uint64_t now) {
    struct error error = {0};
    uint64_t idle_most = device->supervisor->config->device_linger_s * NS_PER_S;
    if (!LIST_EMPTY(&device->pools))
        device->idle_since_ns = 0;
    else if (!device->idle_since_ns)
        device->idle_since_ns = now;
    if (device->state == GPU_STOPPING) {
        if (now >= device->stopping_since_ns + device->supervisor->config->stop_timeout_s * NS_PER_S)
            transfer_process_kill(device->process);
        return;
    }
    bool idle = device->idle_since_ns && now >= device->idle_since_ns + idle_most;
    if (device->process)
        watch_process(device, now);
    if (device->state == GPU_BACKING_OFF && now < device->respawn_at_ns)
        return;
    if (idle || (device->state == GPU_BACKING_OFF && LIST_EMPTY(&device->pools))) {
        stop_process(device);
        return;
    }
    if (device->process || start_process(device, &error) == 0)
        return;
    supervisor_report(device->supervisor, "GPU %s: %s", device->uuid, error.text);
    device->failures++;
    give_up_if_due(device, -ENODEV, error.text);
    set_state(device, GPU_BACKING_OFF);
    device->respawn_at_ns = now + NS_PER_S;
}

void devices_stop(struct supervisor *supervisor, bool kill) {
    struct device *device, *next;
    for (device = LIST_FIRST(&supervisor->devices); device; device = next) {
        next = LIST_NEXT(device, link);
        if (kill && device->process)
            transfer_process_kill(device->process);
        else if (device->state != GPU_STOPPING)
            stop_process(device);
    }
}
