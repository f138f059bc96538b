// The answer to a status query: the daemon's settings, its last errors and the GPUs in use.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_STATUS_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_STATUS_H

#include "daemon/supervisor/clients/session.h"

// Hands the answer for that client to `send`, once.
void query_status(struct session *session, void (*send)(struct session *session, Feedd__Answer *answer));

// Rows of an answer: the GPUs that have a record. Texts are copied, because packing a message measures a text twice and
// a faulty transfer process could change its record in between.
struct query_gpus {
    size_t count;
    Feedd__Gpu rows[STATS_MAX_GPUS];
    Feedd__Gpu *list[STATS_MAX_GPUS];
    char uuids[STATS_MAX_GPUS][STATS_NAME], names[STATS_MAX_GPUS][STATS_NAME];
};
void query_list_gpus(const struct stats_region *stats, uint64_t now, struct query_gpus *gpus);

#endif
