// feedctl trace: has the daemon turn its timeline on, and writes it out for as long as that is wanted.
#ifndef FEEDD_CLIENT_CTL_CMD_TRACE_H
#define FEEDD_CLIENT_CTL_CMD_TRACE_H

#include "client/ctl/ctl.h"

int cmd_trace(const struct ctl *ctl, int count, char **arguments);

#endif
