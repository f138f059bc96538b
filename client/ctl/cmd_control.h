// feedctl reload, drain, loaders.
#ifndef FEEDD_CLIENT_CTL_CMD_CONTROL_H
#define FEEDD_CLIENT_CTL_CMD_CONTROL_H

#include "client/ctl/ctl.h"

int cmd_reload(const struct ctl *ctl, int count, char **arguments);
int cmd_drain(const struct ctl *ctl, int count, char **arguments);
int cmd_loaders(const struct ctl *ctl, int count, char **arguments);

#endif
