#include "daemon/control.h"

#include <errno.h>

int control_send(int socket, const void *message, size_t bytes, const int *fds, uint32_t count) {
    if (count > CONTROL_MAX_DESCRIPTORS)
        return -EINVAL;
    ssize_t sent = fdpass_send(socket, message, bytes, lend_fds(fds, count), 0);
    return sent < 0 ? (int)sent : 0;
}

int control_receive(int socket, void *message, size_t bytes, struct received_fds *received) {
    bool truncated;
    ssize_t got = fdpass_receive(socket, message, bytes, received, &truncated);
    if (got < 0)
        return got == -EAGAIN ? 0 : (int)got;
    if (got == 0)
        return -ECONNRESET;
    return (size_t)got == bytes && !truncated && !received->lost ? 1 : -EPROTO;
}
