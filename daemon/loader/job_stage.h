// Jobs whose reads are done and whose samples go through stages.
#ifndef FEEDD_DAEMON_LOADER_JOB_STAGE_H
#define FEEDD_DAEMON_LOADER_JOB_STAGE_H

#include "daemon/loader/job_board.h"

// Queues a job whose reads are all done for its stages, or reports it if there is nothing for them to do.
void job_stage_enqueue(struct job_board *board, struct job *job);

// Runs the stages of the first queued job over a slice of its samples, and reports it after the last one. A slice is
// small, so that reads are submitted and completions taken between slices. There must be a queued job.
void job_stage_slice(struct job_board *board);

#endif
