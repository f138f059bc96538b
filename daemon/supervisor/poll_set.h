// The descriptors that the supervisor waits for, in an epoll of its own that libuv watches as one descriptor. libuv
// ends the process when the kernel refuses to add a descriptor (ENOMEM, ENOSPC); here that is an error for the caller,
// and an entry is gone as soon as it is removed.
//
// An entry's `ready` only notes what happened and marks its object (mark.h). It removes no entry, since events of
// others may be waiting to be dispatched.
#ifndef FEEDD_DAEMON_SUPERVISOR_POLL_SET_H
#define FEEDD_DAEMON_SUPERVISOR_POLL_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <uv.h>

struct poll_entry {
    struct poll_set *set; // NULL: not in one
    int fd;
    uint32_t events; // EPOLLIN, EPOLLOUT; errors and hang-ups come without being asked for
    void (*ready)(struct poll_entry *entry, uint32_t events);
};

struct poll_set {
    int epoll_fd;
    uv_poll_t poll;
};

// Negative errno, and nothing is left.
int poll_set_open(struct poll_set *set, uv_loop_t *loop);
// The loop must run once more for libuv to let go of `poll`.
void poll_set_close(struct poll_set *set);

// The descriptor stays the caller's. -ENOMEM, -ENOSPC: the kernel has no room; -EPERM: it cannot be waited for.
int poll_set_add(struct poll_set *set, struct poll_entry *entry, int fd, uint32_t events,
                 void (*ready)(struct poll_entry *entry, uint32_t events));

// Waits for other events from here on. An entry in no set is left alone, as in poll_set_remove.
void poll_set_change(struct poll_entry *entry, uint32_t events);
void poll_set_remove(struct poll_entry *entry);

#endif
