// Long lists: the index of a dataset, the list of a view that has one, which is sample numbers or the sums by which it
// draws, the groups of a shuffle window, and the sources of a mix.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_INDICES_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_INDICES_H

#include "daemon/supervisor/clients/session.h"

// Answers with a page of it, from sample `start` of the view `name`; with no numbers if the view has no list.
void query_indices(struct session *session, const char *name, uint32_t start,
                   void (*send)(struct session *session, Feedd__Answer *answer));

// The same for the sums of shares of a view that draws by weight.
void query_shares(struct session *session, const char *name, uint32_t start,
                  void (*send)(struct session *session, Feedd__Answer *answer));

// The same for the index of a dataset, from word `start` on; with no words if it has none.
void query_index(struct session *session, const char *name, uint32_t start,
                 void (*send)(struct session *session, Feedd__Answer *answer));

// The same for the groups of a dataset or view that is shuffled in windows, which are those of the dataset.
void query_groups(struct session *session, const char *name, uint32_t start,
                  void (*send)(struct session *session, Feedd__Answer *answer));

// Answers with all sources of the mix `name`; with none if it is not a mix.
void query_sources(struct session *session, const char *name,
                   void (*send)(struct session *session, Feedd__Answer *answer));

#endif
