// feedctl doctor: NVIDIA GPUs, their driver, their bus and their NUMA node. Each check reads files below machine->root.
#ifndef FEEDD_CLIENT_CTL_DOCTOR_CHECK_GPU_H
#define FEEDD_CLIENT_CTL_DOCTOR_CHECK_GPU_H

#include "client/ctl/doctor/finding.h"
#include "client/ctl/doctor/machine.h"

void check_gpus(const struct machine *machine, struct findings *findings);

#endif
