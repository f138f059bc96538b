// The descriptors that the supervisor waits for, in a separate epoll that libuv watches as one descriptor. libuv aborts
// the process if the kernel refuses to add a descriptor (ENOMEM, ENOSPC); here that is an error for the caller, and an
// entry is gone as soon as it is removed.
//
// An entry's `ready` only records what happened and marks its object (mark.h). It must not remove entries, since events
// of others may still have to be dispatched.
#ifndef FEEDD_DAEMON_SUPERVISOR_POLL_SET_H
#define FEEDD_DAEMON_SUPERVISOR_POLL_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <uv.h>

struct poll_entry {
    struct poll_set *set; // NULL: not in one
    int fd;
    uint32_t events; // EPOLLIN, EPOLLOUT; errors and hang-ups are always reported
    void (*ready)(struct poll_entry *entry, uint32_t events);
};

struct poll_set {
    int epoll_fd;
    uv_poll_t poll;
};

// A negative errno means that nothing is left to close.
int poll_set_open(struct poll_set *set, uv_loop_t *loop);
// The loop must run once more for libuv to let go of `poll`.
void poll_set_close(struct poll_set *set);

// The caller keeps the descriptor. -ENOMEM, -ENOSPC: the kernel has no room; -EPERM: it cannot be waited for.
int poll_set_add(struct poll_set *set, struct poll_entry *entry, int fd, uint32_t events,
                 void (*ready)(struct poll_entry *entry, uint32_t events));

// Waits for other events from now on. Ignores an entry that is in no set, as poll_set_remove does.
void poll_set_change(struct poll_entry *entry, uint32_t events);
void poll_set_remove(struct poll_entry *entry);

#endif
