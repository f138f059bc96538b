// What `feedctl status` shows of the confinement of processes.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_CONFINEMENT_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_CONFINEMENT_H

#include "daemon/supervisor/supervisor.h"
#include "proto/codec.h"
#include "shm/confinement.h"

#define QUERY_ROLES 3u

struct query_confinement {
    size_t count;
    Feedd__Confinement *list[QUERY_ROLES];
    Feedd__Confinement rows[QUERY_ROLES];
    char *active[QUERY_ROLES][CONFINEMENT_PARTS];
    char *missing[QUERY_ROLES][CONFINEMENT_PARTS];
};

// Roles of which no process has got so far are left out.
void query_list_confinement(const struct supervisor *supervisor, struct query_confinement *confinement);

#endif
