// A transfer process as the supervisor sees it: started by fork and exec of the same program, with a socket to talk
// over.
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_TRANSFER_PROCESS_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_TRANSFER_PROCESS_H

#include "base/error.h"
#include "daemon/supervisor/feeds/device.h"

// Starts one; device_heard and device_process_ended are called from the loop. The memory goes after the end.
int transfer_process_start(struct device *device, struct transfer_process **started, struct error *error);

// Asks it to end; transfer_process_kill does not ask.
void transfer_process_stop(struct transfer_process *process);
void transfer_process_kill(struct transfer_process *process);

// Sends a request with descriptors, which are duplicated; what the socket does not take now follows as soon as it
// does, in order. False: this REMOVE_CONSUMER has taken back an ADD_CONSUMER that had not been sent yet, and is itself
// not sent either.
bool transfer_process_send(struct transfer_process *process, const struct transfer_request *request,
                           const int *fds, uint32_t count);

bool transfer_process_killed(const struct transfer_process *process);
uint64_t transfer_process_started_ns(const struct transfer_process *process);

// device.c. `fd` came with the report, or is -1; it is taken over.
void device_heard(struct device *device, const struct transfer_report *report, int fd);
// It is reaped. `asked`: by transfer_process_stop.
void device_process_ended(struct device *device, bool asked, uint64_t lived_ns);

#endif
