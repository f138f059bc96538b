// What bounds a process besides filters: limits, capabilities, and when it is its turn to be killed because memory has
// run out.
#ifndef FEEDD_DAEMON_CONFINE_LIMITS_H
#define FEEDD_DAEMON_CONFINE_LIMITS_H

// No core dump, no larger file (unless the log is one), no descriptor besides those that are open. 0 or negative errno.
int limits_close(void);

// Gives up all capabilities of this thread. 0 or negative errno.
int limits_drop_capabilities(void);

// When memory runs out, this process is to be killed before the supervisor, and the higher `points` (of 1000), the
// sooner. Relative to a score above 0 that it has inherited.
void limits_volunteer(int points);
#define LIMITS_LOADER_POINTS   200
#define LIMITS_TRANSFER_POINTS 100

#endif
