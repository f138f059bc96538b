#include "daemon/supervisor/feeds/device_record.h"

#include <string.h>

#include "base/time.h"

int device_record_find(const struct supervisor *supervisor, uint32_t *record, struct error *error) {
    const struct device *device;
    uint32_t used = 0; // a bit for each: what the records themselves say, transfer processes could change
    LIST_FOREACH(device, &supervisor->devices, link)
        used |= 1u << device->record;
    for (*record = 0; *record < STATS_MAX_GPUS; ++*record)
        if (!(used >> *record & 1))
            return 0;
    return error_set(error, -EBUSY, "this daemon already delivers to %u GPUs, the maximum", STATS_MAX_GPUS);
}

void device_record_clear(const struct device *device) {
    struct stats_gpu *gpu = device_record(device);
    atomic_store_explicit(&gpu->pid, 0, memory_order_relaxed);
    atomic_store_explicit(&gpu->pinned_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&gpu->pool_bytes, 0, memory_order_relaxed);
}

void device_record_publish(const struct device *device) {
    struct stats_gpu *gpu = device_record(device);
    stats_gpu_write_begin(gpu);
    device_record_clear(device);
    for (int i = 0; i < GPU_COUNTERS; i++)
        atomic_store_explicit(&gpu->counters[i], 0, memory_order_relaxed);
    latencies_clear(gpu->latencies, GPU_LATENCIES);
    atomic_store_explicit(&gpu->bus_bytes_per_s, 0, memory_order_relaxed);
    atomic_store_explicit(&gpu->pools, 0, memory_order_relaxed);
    atomic_store_explicit(&gpu->state, GPU_STARTING, memory_order_relaxed);
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", device->uuid);
    gpu->name[0] = 0;
    gpu->used = monotonic_ns();
    stats_gpu_write_end(gpu);
}
