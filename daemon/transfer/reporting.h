// What a transfer process tells the supervisor.
#ifndef FEEDD_DAEMON_TRANSFER_REPORTING_H
#define FEEDD_DAEMON_TRANSFER_REPORTING_H

#include "base/error.h"
#include "daemon/control.h"

// `error`, `more` (the members that the kind has besides) and the descriptor may be NULL, NULL and -1. Ends the process
// if the report cannot be sent.
void reporting_send(uint32_t kind, uint32_t pool, const struct error *error,
                    const struct transfer_report *more, int fd);

#endif
