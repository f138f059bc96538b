// The reads of a loader's jobs: claimed, submitted, taken back, tried again.
#ifndef FEEDD_DAEMON_LOADER_JOB_H
#define FEEDD_DAEMON_LOADER_JOB_H

#include "daemon/loader/job_board.h"

// Claims a chunk and plans it. False: there is nothing to claim, or no idle job.
bool job_start(struct job_board *board);

// Gives requests to the reader until it takes no more or there are none.
void job_submit(struct job_board *board, struct reader *reader);

// Takes a list of requests that the reader has finished. Failed ones are tried again; a job whose requests are all done
// is queued for its stages, or reported.
void job_finish(struct job_board *board, struct read_request *list);

#endif
