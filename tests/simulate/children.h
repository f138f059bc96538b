// Child processes as the supervisor starts, watches, stops and wakes them; and what happens to them by itself.
#ifndef FEEDD_TESTS_SIMULATE_CHILDREN_H
#define FEEDD_TESTS_SIMULATE_CHILDREN_H

#include "tests/simulate/loader.h"

// Those that are not stuck show that they live.
void children_beat(void);

// One of those that run, at random, is killed or stands still.
void children_kill_one(void);
void children_stop_one(uint64_t for_ns);

// The supervisor that had started it is gone: it ends soon, by itself.
void child_orphaned(const struct process *process);

#endif
