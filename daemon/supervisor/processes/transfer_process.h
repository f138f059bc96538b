// A transfer process as the supervisor sees it: what it is given, its record in the statistics, and what the two tell
// each other.
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_TRANSFER_PROCESS_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_TRANSFER_PROCESS_H

#include <sys/queue.h>

#include "base/error.h"
#include "daemon/control.h"
#include "daemon/supervisor/processes/process.h"
#include "daemon/supervisor/processes/respawn.h"
#include "shm/stats.h"

struct closer;

struct transfer_process {
    struct process process;
    struct stats_gpu *record;
    // Private.
    TAILQ_HEAD(, unsent) unsent;
    uint32_t unsent_count;
    struct closer *closer; // of what it has sent
    uid_t account;
};

struct transfer_start {
    struct process_set *processes;
    struct poll_set *poll_set;
    struct stats_region *stats;
    int stats_fd;
    uint32_t record; // of the statistics
    int wake_fd;     // eventfd that it sleeps on
    const char *uuid;
    bool decodes;          // its engine is wanted
    struct closer *closer; // of descriptors that it sends
    void *owner;
    void (*changed)(struct process *process); // see process.h; also called when a report has come
};

extern const struct respawn_policy transfer_respawn_policy;

int transfer_process_start(const struct transfer_start *start, struct transfer_process **started,
                           struct error *error);

// Takes the next report. 1: it is in *report, its kind is known, its text ends, and a failure has an errno as its code;
// *fd is the descriptor that came with it, the caller's, or -1; 0: there is none now. Call it until it returns 0, or
// again in the next turn: as long as reports are left, the owner is marked in every turn. What a process said last can
// still be taken once it is GONE. A process that sends anything else is killed, and no more is taken from it.
int transfer_process_receive(struct transfer_process *transfer, struct transfer_report *report, int *fd);

// Sends a request with descriptors, which are duplicated; what the socket does not take now follows as soon as it
// does, in order. False: this REMOVE_CONSUMER has taken back an ADD_CONSUMER that had not been sent yet, and is itself
// not sent either. A process that cannot be told everything is killed.
bool transfer_process_send(struct transfer_process *transfer, const struct transfer_request *request,
                           const int *fds, uint32_t count);

// Closes a descriptor that it sent, which can block, in a thread, and sets it to -1.
void transfer_process_close(struct closer *closer, uint32_t record, int *fd);

// Whether it waits for the driver, as it claims. Ask this before how long it has not moved: it moves as the call ends.
bool transfer_process_is_in_driver(const struct transfer_process *transfer);

// How long it has not moved.
uint64_t transfer_process_silent_ns(const struct transfer_process *transfer, uint64_t now);

// Gives back a process that is GONE, with the requests it never got and the reports nobody took.
void transfer_process_release(struct transfer_process *transfer);

static inline struct transfer_process *transfer_process_of(struct process *process) {
    return (struct transfer_process *)((char *)process - offsetof(struct transfer_process, process));
}

#endif
