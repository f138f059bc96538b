// feedctl read: a consumer for trials. It measures, verifies against the files, and prints digests, by which consumers
// can be compared.
#ifndef FEEDD_CLIENT_CTL_CMD_READ_H
#define FEEDD_CLIENT_CTL_CMD_READ_H

#include "client/ctl/ctl.h"

int cmd_read(const struct ctl *ctl, int count, char **arguments);

#endif
