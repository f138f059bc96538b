#include "daemon/supervisor/feeds/device_watch.h"

#include <inttypes.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/processes/transfer_process.h"

#define STARTING_MOST_NS (120 * NS_PER_S) // drivers can take long to initialise many GPUs

// If the driver hangs, not even SIGKILL ends a process. After a standstill, it may not have had the time to end.
static void watch_killed(struct device *device, uint64_t now) {
    char text[256];
    uint64_t patience = device->supervisor->config->stop_timeout_s * NS_PER_S;
    if (device->told || device->supervisor->stood_still ||
        !process_hangs(&device->transfer->process, now, patience))
        return;
    device->told = true;
    snprintf(text, sizeof text,
             "GPU %s: its transfer process was killed and does not end, so the driver hangs", device->uuid);
    supervisor_report(device->supervisor, "%s", text);
    device_fail_tenants(device, -EIO, text);
}

// The process closes one pool after another. A feed keeps its ring until its pool is closed.
static bool keeps_a_pool(const struct device *device, uint64_t now, uint64_t patience) {
    const struct tenant *tenant;
    LIST_FOREACH(tenant, &device->tenants, link)
        if (tenant->closing_since_ns && now > max_u64(tenant->closing_since_ns, device->closed_ns) + patience)
            return true;
    return false;
}

static void replace(struct device *device, uint64_t patience, const char *why) {
    supervisor_report(device->supervisor,
                      "the transfer process of GPU %s %s for %" PRIu64 " s; it is being replaced",
                      device->uuid, why, patience / NS_PER_S);
    process_kill(&device->transfer->process);
}

void device_watch(struct device *device, uint64_t now) {
    const struct config *config = device->supervisor->config;
    struct process *process = &device->transfer->process;
    uint64_t stop_timeout = config->stop_timeout_s * NS_PER_S, timeout = config->loader_timeout_s * NS_PER_S;
    uint64_t patience = device->state == DEVICE_STARTING ? STARTING_MOST_NS : timeout;
    process_watch(process, now, stop_timeout);
    watch_killed(device, now);
    if (process->state != PROCESS_RUNNING)
        return;
    if (transfer_process_silent_ns(device->transfer, now) > patience)
        replace(device, patience, "has made no progress");
    else if (device->lost.code && now > device->lost_ns + stop_timeout)
        replace(device, stop_timeout, "has lost the GPU and has not ended");
    else if (keeps_a_pool(device, now, 2 * timeout))
        replace(device, 2 * timeout, "was asked to close a pool and has not done so");
}
