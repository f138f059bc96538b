#include "daemon/supervisor/feeds/device_watch.h"

#include <inttypes.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/processes/transfer_process.h"

// Drivers can take long: to initialise many GPUs, to pin memory while other processes do so, or to tidy up after a
// process.
#define DRIVER_MOST_NS (120 * NS_PER_S)

// If the driver hangs, not even SIGKILL ends a process. Those that wait for the GPU are told so, once it is certain.
static void watch_killed(struct device *device, uint64_t now) {
    const struct process *process = &device->transfer->process;
    const uint64_t patience = device->supervisor->config->stop_timeout_s * NS_PER_S;
    char text[256];
    if (!device->warned && process_hangs(process, now, patience)) {
        device->warned = true;
        log_warning("GPU %s: its transfer process was killed %" PRIu64 " s ago and has not ended yet",
                    device->uuid, patience / NS_PER_S);
    }
    if (device->told || !process_hangs(process, now, max_u64(patience, DRIVER_MOST_NS)))
        return;
    device->told = true;
    snprintf(text, sizeof text,
             "GPU %s: its transfer process was killed and does not end, so the driver hangs", device->uuid);
    supervisor_report(device->supervisor, "%s", text);
    device_fail_tenants(device, -EIO, text);
}

// The process closes one pool after another. A feed keeps its ring until its pool is closed. What the process does in
// the driver may be just that, but it only claims to be there.
static bool keeps_a_pool(const struct device *device, uint64_t now, uint64_t patience) {
    const struct tenant *tenant;
    LIST_FOREACH(tenant, &device->tenants, link) {
        if (!tenant->closing_since_ns)
            continue;
        const uint64_t since = max_u64(tenant->closing_since_ns, device->closed_ns);
        if (now > max_u64(since, device->in_driver_ns) + patience || now > since + patience + DRIVER_MOST_NS)
            return true;
    }
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
    process_watch(process, now, stop_timeout);
    watch_killed(device, now);
    if (process->state != PROCESS_RUNNING)
        return;
    const bool in_driver =
        device->state == DEVICE_STARTING || transfer_process_is_in_driver(device->transfer);
    const uint64_t patience = in_driver ? max_u64(timeout, DRIVER_MOST_NS) : timeout;
    if (in_driver)
        device->in_driver_ns = now;
    if (transfer_process_silent_ns(device->transfer, now) > patience)
        replace(device, patience, "has made no progress");
    else if (device->lost.code && now > device->lost_ns + stop_timeout)
        replace(device, stop_timeout, "has lost the GPU and has not ended");
    else if (keeps_a_pool(device, now, 2 * timeout))
        replace(device, 2 * timeout, "was asked to close a pool and has not done so");
}
