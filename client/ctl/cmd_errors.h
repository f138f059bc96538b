// feedctl errors: samples that could not be read.
#ifndef FEEDD_CLIENT_CTL_CMD_ERRORS_H
#define FEEDD_CLIENT_CTL_CMD_ERRORS_H

#include "client/ctl/ctl.h"

int cmd_errors(const struct ctl *ctl, int count, char **arguments);

#endif
