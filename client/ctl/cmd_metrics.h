#ifndef FEEDD_CLIENT_CTL_CMD_METRICS_H
#define FEEDD_CLIENT_CTL_CMD_METRICS_H

#include "client/ctl/ctl.h"

int cmd_metrics(const struct ctl *ctl, int count, char **arguments);

#endif
