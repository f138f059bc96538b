// feedctl index: builds or checks the index of a dataset.
#ifndef FEEDD_CLIENT_CTL_CMD_INDEX_H
#define FEEDD_CLIENT_CTL_CMD_INDEX_H

#include "client/ctl/ctl.h"

int cmd_index(const struct ctl *ctl, int count, char **arguments);

#endif
