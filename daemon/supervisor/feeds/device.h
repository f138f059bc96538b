// A GPU in use: its transfer process, and the tenants that have memory there (feeds' pools). Known by its UUID; the
// supervisor itself loads no driver.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_DEVICE_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_DEVICE_H

#include "base/error.h"
#include "daemon/control.h"
#include "daemon/supervisor/processes/respawn.h"
#include "daemon/supervisor/supervisor.h"
#include "gpu/gpu.h"

struct transfer_process;

enum device_state {
    DEVICE_STARTING,    // its transfer process opens the GPU, which can take seconds
    DEVICE_READY,       // requests are heard
    DEVICE_BACKING_OFF, // its transfer process has ended; another one is started after a while
    DEVICE_STOPPING,    // its transfer process is to end, and the device with it
    DEVICE_GONE,        // freed at the end of the turn
};

// What a pool is to the GPU that it lies on. The events change the tenant's own state and mark what is to act on it.
struct tenant {
    LIST_ENTRY(tenant) link;
    const struct tenant_events *events;
    struct device *device;
    uint32_t id;
    uint64_t promised_bytes; // of device_memory
    bool closing;            // wants nothing any more
};

struct tenant_events {
    void (*ready)(struct tenant *tenant); // a transfer process hears requests
    void (*died)(
        struct tenant *tenant); // it is reaped: what it had claimed is free, what it knew is forgotten
    void (*failed)(struct tenant *tenant, int code, const char *text); // the GPU is not to be had
    // What the transfer process reports of this tenant; `fd` is taken over, -1 if none came.
    void (*reported)(struct tenant *tenant, const struct transfer_report *report, int fd);
    bool (*is_crashing)(const struct tenant *tenant); // transfer processes die each time that they open it
};

struct device {
    LIST_ENTRY(device) link;
    struct mark mark;
    struct supervisor *supervisor;
    char uuid[GPU_UUID_BYTES];
    enum device_state state;
    struct transfer_process *transfer; // NULL: none now
    int wake_fd;                       // eventfd that the transfer process sleeps on
    uint32_t record;                   // of the statistics
    LIST_HEAD(, tenant) tenants;
    struct respawn respawn;
    uint64_t idle_since_ns; // without tenants; 0: it has some
    bool told;              // that its process was killed and does not end
    struct error lost;      // what the last process said before it ended
};

// The device with that UUID, with a transfer process under way.
int device_get(struct supervisor *supervisor, const char *uuid, struct device **device, struct error *error);

void device_mark(struct device *device);

// Sends a request, if there is a process that hears it. False: there is none, or an ADD_CONSUMER has been taken back by
// this REMOVE_CONSUMER, so that nothing will be answered.
bool device_send(struct device *device, const struct transfer_request *request, const int *fds,
                 uint32_t count);

// Wakes its transfer process, which sleeps.
void device_wake(const struct device *device);

void device_add_tenant(struct device *device, struct tenant *tenant);
void device_remove_tenant(struct tenant *tenant);

// GPU memory that tenants have been promised.
uint64_t device_promised_bytes(const struct device *device);

// The turn: hears what the transfer process has reported, replaces one that has ended, gives up on time limits.
void device_act(struct device *device, uint64_t now);

// Ends the process of a device, which is then GONE; `kill` does not ask.
void device_stop(struct device *device, bool kill);

// Frees what is GONE.
void devices_free(struct supervisor *supervisor);

#endif
