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
#include "shm/stats.h"

#define REPORTS_MOST     64u              // at a time; others get their turn before the rest
#define CRASHES_MOST     5u               // while one pool was opened
#define STARTING_MOST_NS (120 * NS_PER_S) // drivers can take long to wake up many GPUs

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

static void on_process_changed(struct process *process);

static int start_process(struct device *device, struct error *error) {
    const struct supervisor *supervisor = device->supervisor;
    const struct transfer_start start = {
        .loop = (uv_loop_t *)&supervisor->loop,
        .stats = supervisor->stats,
        .stats_fd = supervisor->stats_fd,
        .record = device->record,
        .wake_fd = device->wake_fd,
        .uuid = device->uuid,
        .owner = device,
        .changed = on_process_changed,
    };
    set_state(device, GPU_STARTING);
    device->told = false;
    return transfer_process_start(&start, &device->process, error);
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
    respawn_init(&device->respawn, &transfer_respawn_policy, device->idle_since_ns);
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

static void heard(struct device *device, const struct transfer_report *report, int fd) {
    struct pool *pool = find_pool(device, report->pool);
    char text[sizeof report->text];
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, report->text);
    switch (report->kind) {
    case TRANSFER_READY:
        ready(device, text);
        break;
    case TRANSFER_POOL_OPEN:
        respawn_worked(&device->respawn);
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
    if (!respawn_has_given_up(&device->respawn))
        return;
    error_set(&error, code, "GPU %s: its transfer process failed %" PRIu32 " times in a row: %s",
              device->uuid, device->respawn.failures, why);
    fail_pools(device, is_served, error.code, error.text);
}

static void report_end(const struct device *device, const struct process *process) {
    char end[128];
    process_describe_end(process, end, sizeof end);
    if (process->asked)
        log_info("the transfer process of GPU %s has ended", device->uuid);
    else
        supervisor_report(device->supervisor, "the transfer process of GPU %s %s", device->uuid, end);
}

static void process_ended(struct device *device, bool asked, uint64_t lived_ns) {
    struct pool *pool, *next;
    uint64_t now = monotonic_ns();
    bool was_ready = device->state == GPU_RUNNING && !device->lost.code;
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
    respawn_died(&device->respawn, now, lived_ns, was_ready);
    give_up_if_due(device, device->lost.code ? device->lost.code : -ENODEV,
                   device->lost.code ? device->lost.text : "see the daemon's log");
    device->lost = (struct error){0};
    set_state(device, GPU_BACKING_OFF);
    device_watch(device, now);
}

static void on_process_changed(struct process *process) {
    struct device *device = process->owner;
    struct transfer_process *transfer = device->process;
    struct transfer_report report;
    bool gone = process->state == PROCESS_GONE;
    int fd;
    for (uint32_t i = 0; (gone || i < REPORTS_MOST) && transfer_process_receive(transfer, &report, &fd); i++)
        heard(device, &report, fd);
    if (!gone)
        return;
    bool asked = process->asked;
    uint64_t lived = process_lived_ns(process);
    report_end(device, process);
    device->process = NULL;
    transfer_process_release(transfer);
    process_ended(device, asked, lived);
}

// ---- Watching ----------------------------------------------------------------------------------------------

// A driver that hangs keeps a process even from being killed.
static void watch_killed(struct device *device, uint64_t now) {
    char text[256];
    uint64_t patience = device->supervisor->config->stop_timeout_s * NS_PER_S;
    if (device->told || !process_hangs(&device->process->process, now, patience))
        return;
    device->told = true;
    snprintf(text, sizeof text, "GPU %s: its transfer process was killed and does not end: the driver hangs",
             device->uuid);
    supervisor_report(device->supervisor, "%s", text);
    fail_pools(device, is_served, -EIO, text);
}

static void watch_process(struct device *device, uint64_t now) {
    const struct supervisor *supervisor = device->supervisor;
    struct process *process = &device->process->process;
    if (process->state == PROCESS_KILLED) {
        watch_killed(device, now);
        return;
    }
    uint64_t patience =
        device->state == GPU_STARTING ? STARTING_MOST_NS : supervisor->config->loader_timeout_s * NS_PER_S;
    if (transfer_process_silent_ns(device->process, now) <= patience)
        return;
    supervisor_report(device->supervisor,
                      "the transfer process of GPU %s has not moved for %" PRIu64 " s; it is replaced",
                      device->uuid, patience / NS_PER_S);
    process_kill(process);
}

static void stop_process(struct device *device) {
    set_state(device, GPU_STOPPING);
    if (device->process) {
        process_stop(&device->process->process);
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
        process_watch(&device->process->process, now, device->supervisor->config->stop_timeout_s * NS_PER_S);
        return;
    }
    bool idle = device->idle_since_ns && now >= device->idle_since_ns + idle_most;
    if (device->process)
        watch_process(device, now);
    if (device->state == GPU_BACKING_OFF && !respawn_may_start(&device->respawn, now))
        return;
    if (idle || (device->state == GPU_BACKING_OFF && LIST_EMPTY(&device->pools))) {
        stop_process(device);
        return;
    }
    if (device->process || start_process(device, &error) == 0)
        return;
    supervisor_report(device->supervisor, "GPU %s: %s", device->uuid, error.text);
    respawn_unspawned(&device->respawn, now);
    give_up_if_due(device, -ENODEV, error.text);
    set_state(device, GPU_BACKING_OFF);
}

void devices_stop(struct supervisor *supervisor, bool kill) {
    struct device *device, *next;
    for (device = LIST_FIRST(&supervisor->devices); device; device = next) {
        next = LIST_NEXT(device, link);
        if (kill && device->process)
            process_kill(&device->process->process);
        else if (device->state != GPU_STOPPING)
            stop_process(device);
    }
}
