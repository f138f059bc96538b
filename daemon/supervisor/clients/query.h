// What the two files of answers to feedctl share.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_H

#include "daemon/supervisor/clients/session.h"

// Sends it as the answer to a query.
void query_send(struct session *session, Feedd__Answer *answer);

// query_status.c: answers with the daemon, its settings, its last errors and the GPUs in use.
void query_status(struct session *session);

// Rows of an answer: the GPUs that have a record. Texts are copies, as a transfer process can write to its record and
// may have run wild; whoever packs a message measures a text twice.
struct query_gpus {
    size_t count;
    Feedd__Gpu rows[STATS_MAX_GPUS];
    Feedd__Gpu *list[STATS_MAX_GPUS];
    char uuids[STATS_MAX_GPUS][STATS_NAME], names[STATS_MAX_GPUS][STATS_NAME];
};
void query_list_gpus(const struct stats_region *stats, uint64_t now, struct query_gpus *gpus);

#endif
