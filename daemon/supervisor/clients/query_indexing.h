// What the answers to questions say of indices that are being built.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_INDEXING_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_INDEXING_H

#include "base/error.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/indexing.h"

#define QUERY_INDEXING_MOST 16u // lines

struct query_indexing {
    uint32_t count;
    char *lines[QUERY_INDEXING_MOST];
    char texts[QUERY_INDEXING_MOST][sizeof((struct error *)0)->text];
};

// A line per dataset that is shown to the client and not there yet, or checked.
void query_list_indexing(struct session *session, struct query_indexing *list);

// The part of a dataset's row that is known whether it is there or not. `indexing` is the row's.
void query_describe_index(const struct supervisor *supervisor, size_t number, Feedd__Dataset *row,
                          Feedd__Indexing *indexing);

#endif
