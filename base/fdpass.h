// Descriptors over Unix sockets. Lent descriptors stay the sender's: the kernel duplicates them. Received ones
// belong to whoever received them, who takes or closes each.
#ifndef FEEDD_BASE_FDPASS_H
#define FEEDD_BASE_FDPASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/scope.h"

// No message carries more (the kernel's SCM_MAX_FD). Whoever receives from strangers has room for as many: the kernel
// closes those that there is no room for, in the middle of the call, and closing a stranger's descriptor can block.
#define FDPASS_MOST 253u

struct lent_fds {
    const int *fds;
    uint32_t count;
};

struct received_fds {
    int *fds; // room for `most`
    uint32_t most;
    uint32_t count;
    bool lost; // more came than there was room for, here or in this process: the kernel closed them
};

static inline struct lent_fds lend_fds(const int *fds, uint32_t count) {
    return (struct lent_fds){fds, count};
}

static inline struct lent_fds lend_no_fds(void) {
    return (struct lent_fds){NULL, 0};
}

// Nothing received yet, with room for `most` in `fds`; beyond FDPASS_MOST it is of no use.
static inline struct received_fds receive_into(int *fds, uint32_t most) {
    return (struct received_fds){.fds = fds, .most = most};
}

// One sendmsg, repeated when a signal interrupts it, that never raises SIGPIPE. `flags` as MSG_DONTWAIT. Bytes
// sent, or a negative errno: -EINVAL for more than FDPASS_MOST descriptors, -EPERM if the receiver takes none
// (SO_PASSRIGHTS).
ssize_t fdpass_send(int socket, const void *bytes, size_t count, struct lent_fds lent, int flags);

// One recvmsg that does not wait, repeated when a signal interrupts it. Bytes received, 0 the peer has closed, or a
// negative errno. Descriptors are marked to be closed on exec. `truncated`, which may be NULL: the message had more
// bytes.
ssize_t fdpass_receive(int socket, void *bytes, size_t count, struct received_fds *received, bool *truncated);

void received_fds_close(struct received_fds *received);

#endif
