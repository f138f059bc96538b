#include "daemon/control.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

union descriptors {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(CONTROL_MAX_DESCRIPTORS * sizeof(int))];
};

int control_send(int socket, const void *message, size_t bytes, const int *fds, uint32_t count) {
    union descriptors control = {.align = {.cmsg_len = CMSG_LEN(count * sizeof(int)),
                                           .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS}};
    struct iovec from = {(void *)message, bytes};
    struct msghdr packet = {.msg_iov = &from, .msg_iovlen = 1};
    if (count > CONTROL_MAX_DESCRIPTORS)
        return -EINVAL;
    if (count) {
        packet.msg_control = control.bytes;
        packet.msg_controllen = CMSG_SPACE(count * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &packet, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

static uint32_t take_descriptors(struct msghdr *packet, int fds[CONTROL_MAX_DESCRIPTORS]) {
    uint32_t taken = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(packet); part; part = CMSG_NXTHDR(packet, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        uint32_t count = (uint32_t)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds + taken, CMSG_DATA(part), count * sizeof(int));
        taken += count;
    }
    return taken;
}

int control_receive(int socket, void *message, size_t bytes, int fds[CONTROL_MAX_DESCRIPTORS],
                    uint32_t *count) {
    union descriptors control;
    struct iovec into = {message, bytes};
    struct msghdr packet = {.msg_iov = &into, .msg_iovlen = 1};
    ssize_t got;
    do {
        packet.msg_control = control.bytes;
        packet.msg_controllen = sizeof control.bytes;
        got = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    *count = 0;
    if (got < 0)
        return errno == EAGAIN ? 0 : errno == ECONNRESET ? -ECONNRESET : -errno;
    if (got == 0)
        return -ECONNRESET;
    *count = take_descriptors(&packet, fds);
    if ((size_t)got == bytes && !(packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return 1;
    while (*count)
        close(fds[--*count]);
    return -EPROTO;
}
