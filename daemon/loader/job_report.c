#include "daemon/loader/job_report.h"

#include <inttypes.h>

#include "base/time.h"
#include "daemon/log.h"

#define LINES_PER_SECOND 5u

// A truncated file has a great many failed samples: a few lines per second, and how many more there were.
static void tell(struct job_board *board, uint64_t sample, const struct job_failure *failure) {
    enum log_level level = board->settings->skip_errors ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR;
    uint64_t now = monotonic_ns();
    if (now - board->told_ns >= NS_PER_S) {
        if (board->untold)
            log_write(level, "%" PRIu64 " more samples failed", board->untold);
        board->told_ns = now;
        board->told = 0;
        board->untold = 0;
    }
    if (board->told++ >= LINES_PER_SECOND) {
        board->untold++;
        return;
    }
    char what[64] = "cannot be read";
    if (failure->stage)
        snprintf(what, sizeof what, "was refused by its %s", failure->stage);
    log_write(level, "sample %" PRIu64 " %s: file %" PRIu32 " of the dataset, offset %" PRIu64 ": %s", sample,
              what, failure->file, failure->offset, failure->sentence);
}

void job_sample_failed(struct job_board *board, struct job *job, const struct job_failure *failure) {
    uint64_t sample = job->plan.samples[failure->sample];
    tell(board, sample, failure);
    if (board->settings->skip_errors) {
        ring_skip_sample(&board->ring, &job->claim, job->claim.first_sample + failure->sample);
        job->skipped++;
        return;
    }
    if (job->failed)
        return;
    job->failed = true;
    job->code = failure->code;
    job->file = failure->file;
    job->offset = failure->offset;
    job->sample = sample;
}

static void wake_supervisor(const struct job_board *board) {
    uint64_t one = 1;
    if (write(board->event_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_error("cannot wake the supervisor: %m");
}

void job_report(struct job_board *board, struct job *job) {
    const struct ring_claim *claim = &job->claim;
    bool wake;
    if (job->failed) {
        wake = ring_chunk_failed(&board->ring, claim, job->code, job->file, job->offset, job->sample);
    } else {
        uint32_t delivered = claim->count - job->skipped;
        stats_add(&board->stats->counters[LOADER_samples], delivered);
        stats_add(&board->stats->counters[LOADER_bytes], delivered * board->sample_bytes);
        stats_add(&board->stats->counters[LOADER_skipped], job->skipped);
        wake = ring_chunk_done(&board->ring, claim, job->skipped);
    }
    job_set_state(job, JOB_IDLE);
    board->busy--;
    STAILQ_INSERT_HEAD(&board->idle, job, link); // the job used last is still in the cache
    if (wake)
        wake_supervisor(board);
}

void job_repair(struct job_board *board, const struct ring_claim *claim) {
    ring_repair(&board->ring, claim);
    if (ring_chunk_done(&board->ring, claim, 0))
        wake_supervisor(board);
}
