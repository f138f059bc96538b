// feedctl pack: writes a dataset into shards that are read fastest.
#ifndef FEEDD_CLIENT_CTL_CMD_PACK_H
#define FEEDD_CLIENT_CTL_CMD_PACK_H

#include "client/ctl/ctl.h"

int cmd_pack(const struct ctl *ctl, int count, char **arguments);

#endif
