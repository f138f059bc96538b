// The groups of a client, as the kernel recorded them when it connected. No directory service is asked.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_PEER_GROUPS_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_PEER_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct peer_groups {
    bool known;
    int lack;   // negative errno if memory ran out when they were last read; else 0
    gid_t *ids; // besides the primary group, which SO_PEERCRED reports
    size_t count;
};

// Reads them on first use. If the kernel does not say (before Linux 4.13), there are none: a client is then let in by
// its user or primary group, or not at all. If memory ran out, there are none for now, and the next use reads them.
void peer_groups_read(struct peer_groups *groups, int socket);
void peer_groups_free(struct peer_groups *groups);

#endif
