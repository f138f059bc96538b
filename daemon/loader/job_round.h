// One round of a loader's main loop.
#ifndef FEEDD_DAEMON_LOADER_JOB_ROUND_H
#define FEEDD_DAEMON_LOADER_JOB_ROUND_H

#include "daemon/loader/job.h"

#define ROUND_WAIT_MS 200 // longest wait for reads: the heartbeat and SIGTERM are looked at in between

// Submits reads, claims chunks for more of them if `claim`, takes what the reader has finished, and runs stages for a
// slice. Waits for reads only if no stage has work. False: the loader has nothing to do.
bool job_round(struct job_board *board, struct reader *reader, bool claim);

#endif
