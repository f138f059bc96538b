// A loader process that is started before there is a feed for it, and what it is given when there is one. Until then it
// has nothing of anybody's.
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_LOADER_PREPARED_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_LOADER_PREPARED_H

#include "daemon/supervisor/processes/loader_process.h"

// What one that is prepared now would be told. `queue_depth` is the option's.
struct prepared_settings loader_prepared_settings(uint32_t queue_depth);

// Whether it was told the same and can still be given a feed.
bool loader_prepared_fits(const struct loader_process *loader, const struct prepared_settings *settings);

struct loader_preparation {
    struct process_set *processes;
    struct poll_set *poll_set;
    const struct prepared_settings *settings;
    void *owner;
    void (*changed)(struct process *process);
};

int loader_prepared_start(const struct loader_preparation *preparation, struct loader_process **started,
                          struct error *error);

// Has it map memory of so many bytes that may become its ring. A negative errno: it does not, and is as it was.
int loader_prepared_offer(const struct loader_process *loader, int fd, uint64_t bytes);

// Hands it the descriptors of a loader of that feed; -1: none. It need not have come so far as to wait for them, and
// may be dead already. A negative errno: it has got nothing, and the caller ends it.
int loader_prepared_assign(struct loader_process *loader, uint64_t feed, const int *fds, uint32_t fd_count);

// There will be no feed for it: it is asked to end.
void loader_prepared_dismiss(struct loader_process *loader);

#endif
