#include "daemon/supervisor/clients/peer_groups.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#define COUNT_MOST 65536u // of the kernel

// libc's headers may be older than Linux 4.13.
#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

void peer_groups_read(struct peer_groups *groups, int socket) {
    socklen_t bytes = 0;
    if (groups->known)
        return;
    groups->known = true;
    // Without room for them, the kernel says how much it needs.
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) == 0 || errno != ERANGE ||
        bytes > COUNT_MOST * sizeof *groups->ids)
        return;
    gid_t *ids = malloc(bytes);
    if (!ids)
        return;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, ids, &bytes) < 0) {
        free(ids);
        return;
    }
    groups->ids = ids;
    groups->count = bytes / sizeof *ids;
}

void peer_groups_free(struct peer_groups *groups) {
    free(groups->ids);
    *groups = (struct peer_groups){0};
}
