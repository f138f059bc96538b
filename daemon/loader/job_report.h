// What becomes of a job: samples that fail are skipped or fail the feed, as on_error says, and a finished chunk is
// reported to the supervisor.
#ifndef FEEDD_DAEMON_LOADER_JOB_REPORT_H
#define FEEDD_DAEMON_LOADER_JOB_REPORT_H

#include "daemon/loader/job_board.h"

// A sample that cannot be delivered.
struct job_failure {
    uint32_t sample; // of the chunk, from 0
    int code;        // negative errno
    uint32_t file;
    uint64_t offset;
    const char *stage; // that refused it; NULL: it cannot be read
    const char *sentence;
    bool listed; // incomplete: the supervisor knows, and people need not be told again
};

// Writes a line and follows on_error. To be called once per sample: see chunk_plan_mark_failed.
void job_sample_failed(struct job_board *board, struct job *job, const struct job_failure *failure);

// Of a plan that has just been filled: samples that are incomplete have failed.
void job_leave_incomplete(struct job_board *board, struct job *job);

// Reports the chunk and makes the job idle. Wakes the supervisor where it waits for this chunk.
void job_report(struct job_board *board, struct job *job);

// Does a repair that was claimed (ring_loader.h) and reports it.
void job_repair(struct job_board *board, const struct ring_claim *claim);

#endif
