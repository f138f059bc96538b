#include "base/fdpass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/sizes.h"

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(FDPASS_MOST * sizeof(int))];
};

ssize_t fdpass_send(int socket, const void *bytes, size_t count, struct lent_fds lent, int flags) {
    union control control;
    struct iovec from = {(void *)bytes, count};
    struct msghdr message = {.msg_iov = &from, .msg_iovlen = 1};
    if (lent.count > FDPASS_MOST)
        return -EINVAL;
    if (lent.count) {
        const size_t fd_bytes = lent.count * sizeof *lent.fds;
        memset(&control, 0, CMSG_SPACE(fd_bytes));
        control.align = (struct cmsghdr){CMSG_LEN(fd_bytes), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.align), lent.fds, fd_bytes);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fd_bytes);
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

// The room in the control buffer is rounded up, so one more than asked for may come.
static void take(struct received_fds *received, const struct cmsghdr *part) {
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
        if (received->count < received->most) {
            received->fds[received->count++] = fd;
        } else {
            close(fd);
            received->lost = true;
        }
    }
}

ssize_t fdpass_receive(int socket, void *bytes, size_t count, struct received_fds *received,
                       bool *truncated) {
    union control control;
    struct iovec into = {bytes, count};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1};
    size_t room = min_u64(received->most - received->count, FDPASS_MOST);
    ssize_t got;
    do {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(room * sizeof(int));
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
            take(received, part);
    received->lost |= message.msg_flags & MSG_CTRUNC;
    if (truncated)
        *truncated = message.msg_flags & MSG_TRUNC;
    return got;
}

void received_fds_close(struct received_fds *received) {
    while (received->count)
        close(received->fds[--received->count]);
}
