// The reads of a loader's jobs: claimed, submitted, taken back, tried again.
#ifndef FEEDD_DAEMON_LOADER_JOB_H
#define FEEDD_DAEMON_LOADER_JOB_H

#include "daemon/loader/job_board.h"

// Claims a chunk and plans it. False: there is nothing to claim, or no idle job.
bool job_start(struct job_board *board);

#define JOB_ATTEMPTS 3u // per read, and per image or block that lacks memory, before on_error decides

// The next image or block could not be decoded for want of what others may give back: there is a pause before the next
// attempt. Counts this attempt once that has lasted for two seconds.
void job_lacks(struct job_board *board, uint64_t began_ns, uint32_t *attempts);

// Whether to try a read that has failed once more: counts the attempt. The attempts of reads that fail for want of what
// others may give back count only once that has lasted for two seconds; there are pauses between them.
bool job_tries_again(struct job_board *board, struct read_request *request);

// Queues a read that is not among those of a pending job: one to be tried again, or one of a block.
void job_add_read(struct job_board *board, struct read_request *request);

// One of what the job waits for is there, or has failed. After the last one it goes to its stages, or is reported.
void job_outstanding_done(struct job_board *board, struct job *job);

// Gives requests to the reader until it takes no more or there are none.
void job_submit(struct job_board *board, struct reader *reader);

// Takes a list of requests that the reader has finished. Failed ones are tried again; a job whose requests are all done
// is queued for its stages, or reported.
void job_finish(struct job_board *board, struct read_request *list);

#endif
