// What restricts a process besides filters: limits, capabilities, and how early the kernel kills it when memory runs
// out.
#ifndef FEEDD_DAEMON_CONFINE_LIMITS_H
#define FEEDD_DAEMON_CONFINE_LIMITS_H

#include <stdint.h>

// No core dump, no larger file (unless the log is one), and no descriptor besides those that are open, or, if not 0,
// below `descriptors`. 0 or negative errno.
int limits_close(uint32_t descriptors);

// Gives up all capabilities of this thread. 0 or negative errno.
int limits_drop_capabilities(void);

// Makes the kernel kill this process before the supervisor when memory runs out; the higher `points` (of 1000), the
// sooner. Added to the inherited score if that is above 0.
void limits_volunteer(int points);
#define LIMITS_LOADER_POINTS   200
#define LIMITS_TRANSFER_POINTS 100

#endif
