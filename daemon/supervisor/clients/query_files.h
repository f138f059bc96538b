// Where the samples of a dataset are, according to the daemon.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_FILES_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_FILES_H

#include "daemon/supervisor/clients/session.h"

// Answers with a page of the files of the dataset or view `name`, from file `start` on.
void query_files(struct session *session, const char *name, uint32_t start,
                 void (*send)(struct session *session, Feedd__Answer *answer));

#endif
