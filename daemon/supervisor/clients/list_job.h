// Completes the list of a view, in a thread: the table of one that draws by weight, and the seal, for which the kernel
// looks at every page. With many numbers that takes seconds.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_LIST_JOB_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_LIST_JOB_H

#include "daemon/supervisor/clients/brought.h"

struct list_job;

struct list_made {
    uint64_t seed;        // what selection.seed is, now that the memory is sealed
    uint64_t chosen_hash; // of draws from a part of the samples: XXH3-64 of how often each one counts; else 0
};

// Begins. `fd` is the memory of a list with the words, which are valid; the job duplicates it. The sessions that wait
// for the view are marked when the job is done.
int list_job_start(const struct brought *brought, int fd, struct list_job **job, struct error *error);

bool list_job_is_done(const struct list_job *job);

// Of one that is done: what it has made, or why it has not.
int list_job_result(const struct list_job *job, struct list_made *made, struct error *error);

// Frees the job; one that is not done ends on its own.
void list_job_leave(struct list_job *job);

#endif
