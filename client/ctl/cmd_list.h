// feedctl datasets, feeds, clients: one table each, or JSON.
#ifndef FEEDD_CLIENT_CTL_CMD_LIST_H
#define FEEDD_CLIENT_CTL_CMD_LIST_H

#include "client/ctl/ctl.h"

int cmd_datasets(const struct ctl *ctl, int count, char **arguments);
int cmd_feeds(const struct ctl *ctl, int count, char **arguments);
int cmd_clients(const struct ctl *ctl, int count, char **arguments);

#endif
