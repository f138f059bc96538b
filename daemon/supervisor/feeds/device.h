// A GPU in use: its transfer process, and the tenants that have memory there (feeds' pools). It is identified by its
// UUID; the supervisor itself does not load a driver.
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
    DEVICE_READY,       // its transfer process handles requests
    DEVICE_BACKING_OFF, // its transfer process has ended; another one is started after a while
    DEVICE_STOPPING,    // its transfer process is being ended, and the device with it
    DEVICE_GONE,        // freed at the end of the turn
};

// A pool as its GPU sees it. The events change the tenant's own state and mark what has to act on it.
struct tenant {
    LIST_ENTRY(tenant) link;
    const struct tenant_events *events;
    struct device *device;
    uint32_t id;
    uint64_t promised_bytes;   // of device_memory
    bool closing;              // needs nothing any more
    uint64_t closing_since_ns; // when the transfer process was asked to close it; 0: not asked, or closed
};

struct tenant_events {
    void (*ready)(struct tenant *tenant); // a transfer process handles requests
    void (*died)(
        struct tenant *tenant); // it was reaped: its claims are free, and its replacement knows nothing
    void (*failed)(struct tenant *tenant, int code, const char *text); // the GPU is not available
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
    uint32_t record;                   // in the statistics
    LIST_HEAD(, tenant) tenants;
    struct respawn respawn;
    uint64_t idle_since_ns;      // without tenants; 0: it has some
    uint64_t kept_until_ns;      // somebody has asked what it can do
    bool warned, told;           // that its process was killed and does not end: the log, and the tenants
    struct error lost;           // what the last process said before it ended
    uint64_t lost_ns;            // when it said so
    bool asked_engine;           // the process was started to open its engine
    enum transfer_engine engine; // of the last process that was READY
    char engine_why[256];        // with ENGINE_MISSING or ENGINE_FAILED: a sentence
    uint64_t ready_ns;           // when that process became READY
    uint64_t closed_ns;          // when it last reported that it had closed a pool
    uint64_t in_driver_ns;       // when it was last seen to wait for the driver
};

// The device with that UUID; its transfer process is being started if it is not running.
int device_get(struct supervisor *supervisor, const char *uuid, struct device **device, struct error *error);

// Whether there is a dataset with images for engines to decode: processes that are started from now on open theirs.
bool devices_want_engines(const struct supervisor *supervisor);

void device_mark(struct device *device);

// Somebody waits to hear what the GPU can do: its process does not end as an idle one before that, even where those are
// not kept.
void device_keep(struct device *device);

// Sends a request if there is a process to handle it. False: there is none, or this REMOVE_CONSUMER has cancelled an
// unsent ADD_CONSUMER, so there will be no answer.
bool device_send(struct device *device, const struct transfer_request *request, const int *fds,
                 uint32_t count);

// Closes a descriptor that a transfer process sent, if it is not -1, in a thread: that can block.
void device_close(const struct device *device, int *fd);

// Its transfer process has done what no correct one does. It is killed and replaced.
void device_condemn(struct device *device);

// Wakes its transfer process, which sleeps.
void device_wake(const struct device *device);

// Tells those that still need the GPU.
void device_fail_tenants(struct device *device, int code, const char *text);

void device_add_tenant(struct device *device, struct tenant *tenant);
void device_remove_tenant(struct tenant *tenant);

// GPU memory that has been promised to tenants.
uint64_t device_promised_bytes(const struct device *device);

// The turn: handles the transfer process's reports, replaces a process that has ended, gives up at time limits.
void device_act(struct device *device, uint64_t now);

// Ends the process of a device, which is then GONE; `kill`: without asking it to stop first.
void device_stop(struct device *device, bool kill);

// The daemon exits without its process, which was killed and has not ended: the log says so.
void device_report_left(const struct device *device);

// Frees devices that are GONE.
void devices_free(struct supervisor *supervisor);

#endif
