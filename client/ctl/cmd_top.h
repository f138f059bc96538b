// feedctl top: the statistics on a whole screen, with keys.
#ifndef FEEDD_CLIENT_CTL_CMD_TOP_H
#define FEEDD_CLIENT_CTL_CMD_TOP_H

#include "client/ctl/ctl.h"

int cmd_top(const struct ctl *ctl, int count, char **arguments);

#endif
