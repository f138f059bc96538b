#include "daemon/control.h"

#include <errno.h>

#include "base/fdpass.h"

int control_send(int socket, const void *message, size_t bytes, const int *fds, uint32_t count) {
    if (count > CONTROL_MAX_DESCRIPTORS)
        return -EINVAL;
    ssize_t sent = fdpass_send(socket, message, bytes, lend_fds(fds, count), 0);
    return sent < 0 ? (int)sent : 0;
}

int control_receive(int socket, void *message, size_t bytes, int fds[CONTROL_MAX_DESCRIPTORS],
                    uint32_t *count) {
    struct received_fds received = receive_into(fds, CONTROL_MAX_DESCRIPTORS);
    bool truncated;
    ssize_t got = fdpass_receive(socket, message, bytes, &received, &truncated);
    *count = received.count;
    if (got < 0)
        return got == -EAGAIN ? 0 : (int)got;
    if (got == 0)
        return -ECONNRESET;
    if ((size_t)got == bytes && !truncated && !received.lost)
        return 1;
    received_fds_close(&received);
    *count = 0;
    return -EPROTO;
}
