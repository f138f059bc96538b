// Simulated loader processes: they claim chunks of the real rings with the real functions, and report them; the storage
// in between is simulated. Each can be killed between any two of its steps. Then reads that it had begun may still
// write to the ring for a while.
#ifndef FEEDD_TESTS_SIMULATE_LOADER_H
#define FEEDD_TESTS_SIMULATE_LOADER_H

#include "daemon/supervisor/processes/process.h"
#include "tests/simulate/plan.h"

void loaders_begin(void);

// Nothing of any loader is left.
bool loaders_gone(void);

// Each, in words.
void loaders_describe(void);

// Those that are not stuck show that they live.
void loaders_beat(void);

// One of those that run, at random, is killed or stands still.
void loaders_kill_one(void);
void loaders_stop_one(uint64_t for_ns);

// The supervisor that had started it is gone: it ends soon, by itself.
void loader_orphaned(const struct process *process);

#endif
