// A chunk that this loader has claimed, from its claim to its report: which reads are under way, what failed, what is
// tried again.
#ifndef FEEDD_DAEMON_LOADER_JOB_H
#define FEEDD_DAEMON_LOADER_JOB_H

#include <sys/queue.h>

#include "base/error.h"
#include "daemon/heritage.h"
#include "daemon/loader/chunk.h"
#include "daemon/loader/read/reader.h"
#include "order/order.h"
#include "shm/ring_loader.h"

struct job {
    STAILQ_ENTRY(job) link;
    struct chunk_plan plan;
    struct ring_claim claim;
    uint32_t submitted;   // of plan.requests
    uint32_t outstanding; // requests planned, split or under way, and not finished
    uint32_t skipped;
    bool failed; // the first failure, when errors are not skipped:
    int code;
    uint32_t file;
    uint64_t offset;
    uint64_t sample;
};

STAILQ_HEAD(job_queue, job);

// What the jobs of one loader share.
struct job_board {
    struct ring ring;
    const struct loader_settings *settings;
    struct stats_loader *stats;
    int event_fd;
    struct order orders[2]; // of the epochs last seen, by their lowest bit
    uint64_t order_epochs[2];
    bool order_known[2];
    uint64_t sample_bytes;
    uint32_t plan_flags;
    struct job *jobs;
    uint32_t job_count;
    struct job_queue idle;        // without a claim
    struct job_queue pending;     // with requests to submit
    struct read_request *retries; // to be submitted before anything new
    struct read_request **retries_end;
    uint32_t busy;
    uint64_t told_ns; // when the second began in which `told` lines about unreadable samples were written
    uint32_t told;
    uint64_t untold; // such samples without a line since
};

// Sizes and allocates jobs for `depth` reads in flight.
int job_board_open(struct job_board *board, struct error *error);
void job_board_close(struct job_board *board);

// Claims a chunk and plans it. False: there is nothing to claim, or no idle job.
bool job_start(struct job_board *board);

// Hands requests to the reader until it has enough or there are none.
void job_submit(struct job_board *board, struct reader *reader);

// Takes back what the reader has finished: retries, skips, reports finished chunks.
void job_finish(struct job_board *board, struct read_request *list);

static inline bool job_waiting(const struct job_board *board) {
    return board->retries || !STAILQ_EMPTY(&board->pending);
}

#endif
