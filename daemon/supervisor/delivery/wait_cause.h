// What a consumer waits for, as the delivery's bookkeeping has it now.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_WAIT_CAUSE_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_WAIT_CAUSE_H

#include "daemon/supervisor/delivery/types.h"

// The consumer is on a lane and has been granted all that is complete.
enum wait_cause wait_cause_of(const struct delivery *delivery, const struct consumer *consumer);

#endif
