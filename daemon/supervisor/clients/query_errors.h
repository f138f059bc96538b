// feedctl errors: samples of a dataset that could not be read.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_ERRORS_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_ERRORS_H

#include "daemon/supervisor/clients/session.h"

void query_errors(struct session *session, const char *name, uint32_t start,
                  void (*send)(struct session *session, Feedd__Answer *answer));

#endif
