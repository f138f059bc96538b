#include "daemon/supervisor/clients/peer_groups.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/error.h"

#define COUNT_MOST 65536u // of the kernel

// libc's headers may be older than Linux 4.13.
#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

// 0 also if the kernel does not say.
static int read_ids(struct peer_groups *groups, int socket) {
    socklen_t bytes = 0;
    // Without room for them, the kernel says how much it needs.
    int err = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &bytes) < 0 ? -errno : 0;
    if (err != -ERANGE || bytes > COUNT_MOST * sizeof *groups->ids)
        return error_is_lack(err) ? err : 0;
    gid_t *ids = malloc(bytes);
    if (!ids)
        return -ENOMEM;
    err = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, ids, &bytes) < 0 ? -errno : 0;
    if (err) {
        free(ids);
        return error_is_lack(err) ? err : 0;
    }
    groups->ids = ids;
    groups->count = bytes / sizeof *ids;
    return 0;
}

void peer_groups_read(struct peer_groups *groups, int socket) {
    if (groups->known)
        return;
    groups->lack = read_ids(groups, socket);
    groups->known = !groups->lack;
}

void peer_groups_free(struct peer_groups *groups) {
    free(groups->ids);
    *groups = (struct peer_groups){0};
}
