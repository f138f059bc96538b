// A GPU in use: its transfer process, and the pools that feeds have there. Known by its UUID; the supervisor itself
// loads no driver.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_DEVICE_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_DEVICE_H

#include "base/error.h"
#include "daemon/control.h"
#include "daemon/supervisor/processes/transfer_process.h"
#include "daemon/supervisor/supervisor.h"
#include "gpu/gpu.h"

struct device {
    LIST_ENTRY(device) link;
    struct supervisor *supervisor;
    char uuid[GPU_UUID_BYTES];
    enum gpu_state state;
    struct transfer_process *process; // NULL: none now
    int wake_fd;                      // eventfd that the transfer process sleeps on
    uint32_t record;                  // of the statistics
    struct respawn respawn;
    LIST_HEAD(, pool) pools;
    uint64_t idle_since_ns; // without pools; 0: it has some
    bool told;              // that its process was killed and does not end
    struct error lost;      // what the last one said before it ended
};

// The device with that UUID, with a transfer process under way.
int device_get(struct supervisor *supervisor, const char *uuid, struct device **device, struct error *error);

// Sends a request, if there is a process that is ready; false: there is none, or an ADD_CONSUMER has been taken back by
// this REMOVE_CONSUMER, so that nothing will be answered.
bool device_send(struct device *device, const struct transfer_request *request, const int *fds,
                 uint32_t count);

// Wakes its transfer process, which sleeps.
void device_wake(const struct device *device);

// GPU memory that pools have been promised.
uint64_t device_promised_bytes(const struct device *device);

void device_watch(struct device *device, uint64_t now);

// Ends the processes of all devices; supervisor_check_done waits for them.
void devices_stop(struct supervisor *supervisor, bool kill);

#endif
