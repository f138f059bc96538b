// feedctl stats: reads the statistics file at every interval. It never asks the daemon, so it works when that hangs.
#ifndef FEEDD_CLIENT_CTL_CMD_STATS_H
#define FEEDD_CLIENT_CTL_CMD_STATS_H

#include "client/ctl/ctl.h"

int cmd_stats(const struct ctl *ctl, int count, char **arguments);

#endif
