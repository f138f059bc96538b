// The record of a GPU in the statistics.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_DEVICE_RECORD_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_DEVICE_RECORD_H

#include "daemon/supervisor/feeds/device.h"

static inline struct stats_gpu *device_record(const struct device *device) {
    return &device->supervisor->stats->gpus[device->record];
}

// One that no other device has. -EBUSY: all are in use.
int device_record_find(const struct supervisor *supervisor, uint32_t *record, struct error *error) MUST_CHECK;

// Shows a device that is being started, for the first time.
void device_record_publish(const struct device *device);

// It has no transfer process.
void device_record_clear(const struct device *device);

#endif
