// feedctl doctor: io_uring and the processors. Each check reads files below machine->root.
#ifndef FEEDD_CLIENT_CTL_DOCTOR_CHECK_SYSTEM_H
#define FEEDD_CLIENT_CTL_DOCTOR_CHECK_SYSTEM_H

#include "client/ctl/doctor/finding.h"
#include "client/ctl/doctor/machine.h"

void check_uring(const struct machine *machine, struct findings *findings);
void check_quota(const struct machine *machine, struct findings *findings);
void check_cpu_clock(const struct machine *machine, struct findings *findings);
void check_clock_source(const struct machine *machine, struct findings *findings);

#endif
