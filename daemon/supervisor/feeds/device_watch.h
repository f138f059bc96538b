// Replaces a GPU's transfer process that does not do in time what it was asked to do.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_DEVICE_WATCH_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_DEVICE_WATCH_H

#include "daemon/supervisor/feeds/device.h"

// The turn, while there is a process.
void device_watch(struct device *device, uint64_t now);

#endif
