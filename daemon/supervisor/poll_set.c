#include "daemon/supervisor/poll_set.h"

#include <errno.h>
#include <unistd.h>

#include "base/scope.h"

#define EVENTS_AT_ONCE 64

static void dispatch(uv_poll_t *poll, int status, int events) {
    const struct poll_set *set = poll->data;
    struct epoll_event ready[EVENTS_AT_ONCE];
    (void)status;
    (void)events;
    // Events that do not fit come in the next turn: all are level-triggered.
    int count = epoll_wait(set->epoll_fd, ready, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < count; i++) {
        struct poll_entry *entry = ready[i].data.ptr;
        entry->ready(entry, ready[i].events);
    }
}

int poll_set_open(struct poll_set *set, uv_loop_t *loop) {
    set->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (set->epoll_fd < 0)
        return -errno;
    int err = uv_poll_init(loop, &set->poll, set->epoll_fd);
    if (err) {
        close_fd(&set->epoll_fd);
        return err;
    }
    set->poll.data = set;
    return uv_poll_start(&set->poll, UV_READABLE, dispatch);
}

static void on_closed(uv_handle_t *handle) {
    struct poll_set *set = handle->data;
    close_fd(&set->epoll_fd);
}

void poll_set_close(struct poll_set *set) {
    if (set->poll.data && !uv_is_closing((uv_handle_t *)&set->poll))
        uv_close((uv_handle_t *)&set->poll, on_closed);
}

int poll_set_add(struct poll_set *set, struct poll_entry *entry, int fd, uint32_t events,
                 void (*ready)(struct poll_entry *entry, uint32_t events)) {
    struct epoll_event event = {.events = events, .data.ptr = entry};
    if (epoll_ctl(set->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    *entry = (struct poll_entry){.set = set, .fd = fd, .events = events, .ready = ready};
    return 0;
}

void poll_set_change(struct poll_entry *entry, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = entry};
    if (!entry->set || entry->events == events)
        return;
    entry->events = events;
    // Cannot fail: the entry is in the set, and no memory is needed.
    epoll_ctl(entry->set->epoll_fd, EPOLL_CTL_MOD, entry->fd, &event);
}

void poll_set_remove(struct poll_entry *entry) {
    if (!entry->set)
        return;
    epoll_ctl(entry->set->epoll_fd, EPOLL_CTL_DEL, entry->fd, NULL);
    entry->set = NULL;
}
