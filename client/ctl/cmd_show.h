// feedctl show: samples as values, text and images.
#ifndef FEEDD_CLIENT_CTL_CMD_SHOW_H
#define FEEDD_CLIENT_CTL_CMD_SHOW_H

#include "client/ctl/ctl.h"

int cmd_show(const struct ctl *ctl, int count, char **arguments);

#endif
