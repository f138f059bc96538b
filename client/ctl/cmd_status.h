// feedctl status: the daemon, its processes, the GPUs in use, its last errors.
#ifndef FEEDD_CLIENT_CTL_CMD_STATUS_H
#define FEEDD_CLIENT_CTL_CMD_STATUS_H

#include "client/ctl/ctl.h"

int cmd_status(const struct ctl *ctl, int count, char **arguments);

#endif
