// The jobs of one loader, and what they share. A job is a chunk that the loader has claimed, until it is reported.
//
//   idle --claim--> reading --reads done--> staging --stages done--> idle
//                   reading --nothing to stage, or failed--> idle
//                   reading, staging --a sample is to be replaced--> reading
#ifndef FEEDD_DAEMON_LOADER_JOB_BOARD_H
#define FEEDD_DAEMON_LOADER_JOB_BOARD_H

#include <sys/queue.h>

#include "base/error.h"
#include "base/lack.h"
#include "daemon/heritage.h"
#include "daemon/loader/block/block_cache.h"
#include "daemon/loader/chunk.h"
#include "daemon/loader/job_clock.h"
#include "daemon/loader/mix_parts.h"
#include "order/sampler.h"
#include "shm/ring_loader.h"
#include "shm/stats.h"

enum job_state {
    JOB_IDLE,    // without a claim
    JOB_READING, // has reads that are not finished
    JOB_STAGING, // all reads are done; stages have gone through `staged` samples
};

struct job {
    STAILQ_ENTRY(job) link;
    enum job_state state;
    struct chunk_plan plan;
    struct ring_claim claim;
    uint32_t submitted;   // of plan.requests
    uint32_t outstanding; // requests planned, split or under way, and not finished; blocks that are not there
    uint32_t awaited;     // blocks among them
    uint32_t staged;      // samples
    uint32_t lacking;     // attempts to stage the next one that job_lacks has counted
    uint32_t skipped;     // samples
    // With on_error = replace: the places in the chunk whose samples cannot be read, of which the first `replaced` have
    // another sample. The next one is being replaced, in this attempt, unless `attempt` is 0.
    uint32_t *bad;
    uint32_t bad_count, replaced, attempt;
    bool attempt_failed;
    uint32_t placed; // the same with ragged fields: samples that stand in the places of others
    uint64_t claimed_ns;
    uint64_t staged_ns; // what its stages have taken
    uint64_t moved_ns;  // since when none of its reads has come back
    bool failed;        // the first failure, when errors are not skipped:
    int code;
    uint32_t file;
    uint64_t offset;
    uint64_t sample;
};

STAILQ_HEAD(job_queue, job);

struct job_board {
    // To be set before job_board_open.
    struct ring ring;
    const struct loader_settings *settings;
    const struct stage_set *stages; // NULL: none
    struct stats_loader *stats;
    int event_fd;
    uint32_t plan_flags; // enum chunk_flags; may change between claims

    const uint64_t *list;       // of the sampler
    const uint8_t *index;       // of the dataset, if it has one
    struct folder_files folder; // if the dataset is one, and not a mix
    struct folder_set folders;  // that or, of a mix, those of its parts
    struct sampler sampler;
    struct mix_parts *mix;      // NULL: the dataset is not a mix
    struct block_share share;   // with the loaders of the feed; empty: blocks are not shared
    struct block_cache *blocks; // NULL: it has none
    uint32_t blocks_lacking;    // attempts to decode the next one that job_lacks has counted
    uint64_t sample_bytes;
    struct job *jobs;   // room for most_jobs
    uint32_t job_count; // made so far
    uint32_t most_jobs;
    struct job_queue idle;
    struct job_queue pending;     // JOB_READING with requests to submit
    struct job_queue staging;     // JOB_STAGING, the next one first
    uint32_t staging_reads;       // that the jobs in there took
    struct read_request *retries; // and reads of blocks: to be submitted before anything new
    struct read_request **retries_end;
    uint32_t busy;           // jobs that are not idle
    uint64_t made_at_once;   // jobs that took no reads
    uint64_t bytes_claimed;  // of all jobs so far, as they are delivered
    uint64_t reads_finished; // or failed: whoever waits for reads sees whether any come
    struct trace_writer trace;
    struct job_clock clock;
    uint64_t now_ns;    // as of the round's look at the clock
    uint64_t latest_ns; // when the job was claimed that was claimed last of those whose reads came back
    uint64_t told_ns;   // when the second began in which `told` lines about failed samples were written
    uint32_t told;
    uint64_t untold; // failed samples without a line since
    struct lack read_lack, decode_lack;
    uint64_t paused_ns; // when the last pause for it ended
    bool pauses;        // whether to pause before the next attempts
};

// With one job; the others are made when they are wanted, as many as keep `queue_depth` reads in flight.
int job_board_open(struct job_board *board, struct error *error);
void job_board_close(struct job_board *board);

// Makes another idle job. -EAGAIN: there may be no more. -ENOMEM or what else chunk_plan_init finds.
int job_board_add(struct job_board *board, struct error *error);

// Whether the stored samples of jobs that are not idle leave memory for another job; it may take any amount.
bool job_board_has_room(const struct job_board *board);

// Plans the reads of a claim. Memory for encoded samples is waited for. -ENOMEM, or what else chunk_plan_fill finds.
int job_board_plan(const struct job_board *board, struct job *job, const struct ring_claim *claim);

// Makes a job idle that has been reported.
void job_board_end(struct job_board *board, struct job *job);

// The only way in which a job's state changes. A transition that is not in the table aborts the process.
void job_set_state(struct job *job, enum job_state state);

static inline bool job_waiting(const struct job_board *board) {
    return board->retries || !STAILQ_EMPTY(&board->pending) ||
           (board->blocks && block_cache_waits(board->blocks));
}

static inline bool job_staging(const struct job_board *board) {
    return !STAILQ_EMPTY(&board->staging);
}

#endif
