// feedctl doctor: what rings need of the kernel and of the control groups. Each check reads files below machine->root.
#ifndef FEEDD_CLIENT_CTL_DOCTOR_CHECK_MEMORY_H
#define FEEDD_CLIENT_CTL_DOCTOR_CHECK_MEMORY_H

#include "client/ctl/doctor/finding.h"
#include "client/ctl/doctor/machine.h"

void check_memlock(const struct machine *machine, struct findings *findings);
void check_shm(const struct machine *machine, struct findings *findings);
void check_group(const struct machine *machine, struct findings *findings);
void check_huge_pages(const struct machine *machine, struct findings *findings);

// How much a page cache can hold here: what is available, within the control groups. 0: unknown.
uint64_t machine_cache_room(const struct machine *machine);

#endif
