#include "daemon/supervisor/feeds/device.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/feeds/device_record.h"
#include "daemon/supervisor/feeds/device_watch.h"
#include "daemon/supervisor/processes/transfer_process.h"

#define REPORTS_AT_ONCE 64u            // then others get their turn
#define CLOSING_MOST    16u            // descriptors that earlier processes sent
#define KEPT_NS         (5 * NS_PER_S) // an Attach that waits asks again four times per second

static_assert(GPU_UUID_BYTES <= STATS_NAME, "a UUID fits into a record of the statistics");

static const struct state states[] = {
    [DEVICE_STARTING] = {"starting", STATE(DEVICE_READY) | STATE(DEVICE_BACKING_OFF) |
                                         STATE(DEVICE_STOPPING) | STATE(DEVICE_GONE)},
    [DEVICE_READY] = {"ready", STATE(DEVICE_BACKING_OFF) | STATE(DEVICE_STOPPING) | STATE(DEVICE_GONE)},
    [DEVICE_BACKING_OFF] = {"backing off",
                            STATE(DEVICE_STARTING) | STATE(DEVICE_STOPPING) | STATE(DEVICE_GONE)},
    [DEVICE_STOPPING] = {"stopping", STATE(DEVICE_GONE)},
    [DEVICE_GONE] = {"gone", 0},
};
static const struct state_table table = STATE_TABLE("device", states);

static void set_state(struct device *device, enum device_state state) {
    // Its identity for readers of the statistics.
    static const enum gpu_state shown[] = {
        [DEVICE_STARTING] = GPU_STARTING,       [DEVICE_READY] = GPU_RUNNING,
        [DEVICE_BACKING_OFF] = GPU_BACKING_OFF, [DEVICE_STOPPING] = GPU_STOPPING,
        [DEVICE_GONE] = GPU_STOPPING,
    };
    device->state = (enum device_state)state_next(&table, device->state, state);
    atomic_store_explicit(&device_record(device)->state, shown[state], memory_order_relaxed);
}

void device_mark(struct device *device) {
    mark_set(&device->supervisor->marked_devices, &device->mark);
}

void device_keep(struct device *device) {
    const uint64_t now = monotonic_ns();
    if (device->idle_since_ns)
        device->idle_since_ns = now;
    device->kept_until_ns = now + KEPT_NS;
}

// ---- Making and freeing ------------------------------------------------------------------------------------

static void free_device(struct device *device) {
    struct stats_gpu *gpu = device_record(device);
    mark_clear(&device->supervisor->marked_devices, &device->mark);
    LIST_REMOVE(device, link);
    close_fd(&device->wake_fd);
    stats_gpu_write_begin(gpu);
    gpu->used = 0;
    stats_gpu_write_end(gpu);
    free(device);
}

void devices_free(struct supervisor *supervisor) {
    struct device *device, *next;
    LIST_FOREACH_SAFE(device, &supervisor->devices, link, next)
        if (device->state == DEVICE_GONE && LIST_EMPTY(&device->tenants))
            free_device(device);
}

static void on_changed(struct process *process) {
    device_mark(process->owner);
}

bool devices_want_engines(const struct supervisor *supervisor) {
    for (size_t i = 0; i < supervisor->dataset_count; i++)
        if (supervisor->datasets[i] && gpu_images_possible(supervisor->datasets[i]))
            return true;
    return false;
}

static int start_process(struct device *device, struct error *error) {
    struct supervisor *supervisor = device->supervisor;
    struct transfer_start start = {
        .processes = &supervisor->processes,
        .poll_set = &supervisor->poll_set,
        .stats = supervisor->stats,
        .stats_fd = supervisor->stats_fd,
        .record = device->record,
        .wake_fd = device->wake_fd,
        .uuid = device->uuid,
        .decodes = devices_want_engines(supervisor),
        .closer = supervisor->gpu_closer,
        .changed = on_changed,
        .owner = device,
    };
    device->warned = device->told = false;
    device->asked_engine = start.decodes;
    return transfer_process_start(&start, &device->transfer, error);
}

static int make_device(struct supervisor *supervisor, const char *uuid, struct device **made,
                       struct error *error) {
    uint32_t record;
    int err = device_record_find(supervisor, &record, error);
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
    device_record_publish(device);
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
        if (strcmp(known->uuid, uuid) == 0 && known->state < DEVICE_STOPPING) {
            *device = known;
            return 0;
        }
    return make_device(supervisor, uuid, device, error);
}

// ---- Tenants -----------------------------------------------------------------------------------------------

static void count_tenants(const struct device *device) {
    const struct tenant *tenant;
    uint32_t count = 0;
    LIST_FOREACH(tenant, &device->tenants, link)
        count++;
    atomic_store_explicit(&device_record(device)->pools, count, memory_order_relaxed);
}

void device_add_tenant(struct device *device, struct tenant *tenant) {
    tenant->device = device;
    LIST_INSERT_HEAD(&device->tenants, tenant, link);
    device->idle_since_ns = 0;
    count_tenants(device);
}

void device_remove_tenant(struct tenant *tenant) {
    struct device *device = tenant->device;
    LIST_REMOVE(tenant, link);
    if (LIST_EMPTY(&device->tenants))
        device->idle_since_ns = monotonic_ns();
    count_tenants(device);
    device_mark(device);
}

uint64_t device_promised_bytes(const struct device *device) {
    const struct tenant *tenant;
    uint64_t bytes = 0;
    LIST_FOREACH(tenant, &device->tenants, link)
        if (!tenant->closing)
            bytes += tenant->promised_bytes;
    return bytes;
}

void device_fail_tenants(struct device *device, int code, const char *text) {
    struct tenant *tenant;
    LIST_FOREACH(tenant, &device->tenants, link)
        if (!tenant->closing)
            tenant->events->failed(tenant, code, text);
}

static struct tenant *find_tenant(const struct device *device, uint32_t id) {
    struct tenant *tenant;
    LIST_FOREACH(tenant, &device->tenants, link)
        if (tenant->id == id)
            return tenant;
    return NULL;
}

// ---- To the transfer process -------------------------------------------------------------------------------

bool device_send(struct device *device, const struct transfer_request *request, const int *fds,
                 uint32_t count) {
    return device->state == DEVICE_READY && device->transfer &&
           transfer_process_send(device->transfer, request, fds, count);
}

void device_close(const struct device *device, int *fd) {
    transfer_process_close(device->supervisor->gpu_closer, device->record, fd);
}

void device_condemn(struct device *device) {
    if (device->transfer)
        process_kill(&device->transfer->process);
}

void device_wake(const struct device *device) {
    const uint64_t one = 1;
    if (write(device->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_warning("cannot wake the transfer process of %s: %m", device->uuid);
}

// ---- From it -----------------------------------------------------------------------------------------------

// Behind the GPU's name, in a text that the process may have written anything to.
static void note_engine(struct device *device, const struct transfer_report *report) {
    const char *end = memchr(report->text, 0, sizeof report->text);
    size_t left = end ? (size_t)(report->text + sizeof report->text - end) - 1 : 0;
    device->engine = report->engine <= ENGINE_FAILED ? (enum transfer_engine)report->engine : ENGINE_MISSING;
    snprintf(device->engine_why, sizeof device->engine_why, "%.*s", (int)left, left ? end + 1 : "");
    device->ready_ns = monotonic_ns();
    if (device->engine == ENGINE_MISSING || device->engine == ENGINE_FAILED)
        log_info("loaders decode the images for GPU %s: %s", device->uuid, device->engine_why);
}

static void ready(struct device *device, const char *name) {
    struct stats_gpu *gpu = device_record(device);
    struct tenant *tenant;
    if (device->state != DEVICE_STARTING)
        return;
    stats_gpu_write_begin(gpu);
    snprintf(gpu->name, sizeof gpu->name, "%.*s", (int)sizeof gpu->name - 1, name);
    stats_gpu_write_end(gpu);
    set_state(device, DEVICE_READY);
    LIST_FOREACH(tenant, &device->tenants, link)
        tenant->events->ready(tenant);
}

// It ends after that, so it has no more to say. If it does not end, device_watch replaces it.
static void lost(struct device *device, const struct transfer_report *report) {
    struct error error = {0};
    if (device->lost.code)
        return;
    device->lost_ns = monotonic_ns();
    device->lost = (struct error){.code = report->code < 0 && report->code > -4096 ? report->code : -EIO};
    snprintf(device->lost.text, sizeof device->lost.text, "%s", report->text);
    error_set(&error, device->lost.code, "GPU %s: %s", device->uuid, device->lost.text);
    supervisor_report(device->supervisor, "%s", error.text);
    device_fail_tenants(device, error.code, error.text);
}

static void heard(struct device *device, struct transfer_report *report, int fd) {
    struct tenant *tenant = find_tenant(device, report->pool);
    if (report->kind == TRANSFER_READY) {
        note_engine(device, report);
        ready(device, report->text);
        return;
    }
    if (report->kind == TRANSFER_LOST) {
        lost(device, report);
        return;
    }
    if (report->kind == TRANSFER_POOL_CLOSED && tenant && tenant->closing_since_ns)
        device->closed_ns = monotonic_ns();
    if (report->kind == TRANSFER_POOL_OPEN)
        respawn_worked(&device->respawn);
    if (tenant)
        tenant->events->reported(tenant, report, fd);
    else // it has gone in the meantime
        device_close(device, &fd);
}

// False: more has been reported.
static bool hear(struct device *device) {
    struct transfer_report report;
    int fd;
    for (uint32_t i = 0; i < REPORTS_AT_ONCE; i++) {
        if (!transfer_process_receive(device->transfer, &report, &fd))
            return true;
        heard(device, &report, fd);
    }
    device_mark(device);
    return false;
}

// Clients that wait for the GPU are refused once its process has failed this often in a row; the next client that asks
// starts it again.
static void give_up_if_due(struct device *device, int code, const char *why) {
    struct error error = {0};
    if (!respawn_has_given_up(&device->respawn))
        return;
    error_set(&error, code, "GPU %s: its transfer process failed %" PRIu32 " times in a row: %s",
              device->uuid, device->respawn.failures, why);
    device_fail_tenants(device, error.code, error.text);
}

static void describe_death(struct device *device, const struct process *process) {
    char end[128];
    process_describe_end(process, end, sizeof end);
    if (process->asked)
        log_info("the transfer process of GPU %s has ended", device->uuid);
    else
        supervisor_report(device->supervisor, "the transfer process of GPU %s %s", device->uuid, end);
}

static void bury(struct device *device, uint64_t now) {
    const struct process *process = &device->transfer->process;
    bool asked = process->asked, was_ready = device->state == DEVICE_READY && !device->lost.code;
    uint64_t started_ns = process->started_ns;
    struct tenant *tenant;
    describe_death(device, process);
    transfer_process_release(device->transfer);
    device->transfer = NULL;
    device_record_clear(device);
    LIST_FOREACH(tenant, &device->tenants, link)
        tenant->events->died(tenant);
    if (asked || device->state == DEVICE_STOPPING) {
        device_fail_tenants(device, -ESHUTDOWN, "feedd is stopping");
        set_state(device, DEVICE_GONE);
        return;
    }
    stats_add(&device_record(device)->counters[GPU_processes_replaced], 1);
    LIST_FOREACH(tenant, &device->tenants, link)
        if (!tenant->closing && tenant->events->is_crashing(tenant))
            tenant->events->failed(tenant, -EIO,
                                   "the transfer process has died each time that it opened the pool");
    respawn_died(&device->respawn, now, started_ns, was_ready);
    give_up_if_due(device, device->lost.code ? device->lost.code : -ENODEV,
                   device->lost.code ? device->lost.text : "see the daemon's log");
    device->lost = (struct error){0};
    set_state(device, DEVICE_BACKING_OFF);
}

// ---- Ending and acting -------------------------------------------------------------------------------------

void device_stop(struct device *device, bool kill) {
    if (device->transfer && kill)
        process_kill(&device->transfer->process);
    if (device->state >= DEVICE_STOPPING)
        return;
    set_state(device, device->transfer ? DEVICE_STOPPING : DEVICE_GONE);
    device_mark(device);
    if (!device->transfer)
        return;
    process_stop(&device->transfer->process);
    device_wake(device); // the signal may have gone to a thread of the driver, not the one that sleeps
}

void device_report_left(const struct device *device) {
    if (device->transfer)
        log_error("exiting without the transfer process of GPU %s (process %d), which was killed and has not"
                  " ended, so the driver hangs",
                  device->uuid, (int)process_pid(&device->transfer->process));
}

static void start_again(struct device *device, uint64_t now) {
    struct error error = {0};
    if (device->state != DEVICE_BACKING_OFF || !respawn_may_start(&device->respawn, now))
        return;
    if (closer_count(device->supervisor->gpu_closer, closer_account(device->record)) > CLOSING_MOST)
        return; // the next one could send as many
    if (LIST_EMPTY(&device->tenants)) {
        device_stop(device, false);
        return;
    }
    set_state(device, DEVICE_STARTING);
    if (start_process(device, &error) == 0)
        return;
    supervisor_report(device->supervisor, "GPU %s: %s", device->uuid, error.text);
    respawn_unspawned(&device->respawn, now);
    give_up_if_due(device, -ENODEV, error.text);
    set_state(device, DEVICE_BACKING_OFF);
}

void device_act(struct device *device, uint64_t now) {
    uint64_t linger = device->supervisor->config->device_linger_s * NS_PER_S;
    bool all_heard = !device->transfer || hear(device);
    if (device->transfer && all_heard && device->transfer->process.state == PROCESS_GONE)
        bury(device, now);
    if (device->transfer)
        device_watch(device, now);
    if (device->idle_since_ns && now >= device->idle_since_ns + linger && now >= device->kept_until_ns &&
        device->state < DEVICE_STOPPING)
        device_stop(device, false);
    start_again(device, now);
}
