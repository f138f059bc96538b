// on_error = replace: samples of a chunk that cannot be read are replaced, one after another, before it is reported.
// The plan of the job is filled again for each one, with a claim of that place alone.
//
// With ragged fields, a replacement has another size, so it moves what comes after it. There the job skips the sample,
// and the supervisor has the batch read again, with the attempts that it writes into the ring.
#ifndef FEEDD_DAEMON_LOADER_JOB_REPLACE_H
#define FEEDD_DAEMON_LOADER_JOB_REPLACE_H

#include "daemon/loader/job_board.h"

// Remembers a sample of the chunk, counted from its first, that is to be replaced; or, while one is being replaced,
// that this attempt has failed. False: that was the last attempt, and the job is to fail.
bool job_replace_wanted(struct job *job, uint32_t sample);

// All reads and stages of the plan are done. True: the job reads a replacement now, or has one in memory that stages
// are to go through. False: nothing is left to be replaced.
bool job_replace_next(struct job_board *board, struct job *job);

// With ragged fields: puts the samples of the ring's attempts into the plan of a job that has been claimed. Returns how
// many.
uint32_t job_replace_placed(const struct job_board *board, struct job *job);

// A sample of the chunk is to be skipped so that the supervisor makes another attempt. False: this was the last one,
// and the job is to fail.
bool job_replace_again(const struct job *job, uint32_t sample);

#endif
