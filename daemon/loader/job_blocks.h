// Samples of jobs that lie in blocks: copied at once from those that are decoded, or when they have been loaded.
#ifndef FEEDD_DAEMON_LOADER_JOB_BLOCKS_H
#define FEEDD_DAEMON_LOADER_JOB_BLOCKS_H

#include "daemon/loader/job_board.h"

// Opens the board's cache if the dataset has blocks.
int job_blocks_open(struct job_board *board, struct error *error);

// After the job's plan was filled: what of its blocks is not decoded counts as outstanding.
void job_blocks_begin(struct job_board *board, struct job *job);

// Hands the reads of blocks for which there is memory to the board's `retries`.
void job_blocks_load(struct job_board *board);

// A read of a block has come back. One that failed is tried again.
void job_blocks_finish(struct job_board *board, struct read_request *request);

// Whether there is a block to decode; decodes one, and completes the jobs that waited for nothing else.
bool job_blocks_pending(const struct job_board *board);
void job_blocks_decode(struct job_board *board);

// Whether jobs wait for blocks that other loaders are decoding; and whether there is nothing else to do for any job.
bool job_blocks_wait_for_others(const struct job_board *board);
bool job_blocks_rest(const struct job_board *board, const struct reader *reader);

#endif
