// A dataset's row in the list of datasets.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_DATASET_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_DATASET_H

#include "daemon/supervisor/clients/session.h"

// `indexing`, `fields` and `list`, with RING_MAX_FIELDS each, are the row's memory.
void query_describe_dataset(const struct session *session, size_t number, Feedd__Dataset *row,
                            Feedd__Indexing *indexing, Feedd__Field *fields, Feedd__Field **list);

#endif
