#ifndef FEEDD_CLIENT_CTL_CMD_DOCTOR_H
#define FEEDD_CLIENT_CTL_CMD_DOCTOR_H

#include "client/ctl/ctl.h"

int cmd_doctor(const struct ctl *ctl, int count, char **arguments);

#endif
