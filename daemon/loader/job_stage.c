#include "daemon/loader/job_stage.h"

#include "base/sizes.h"
#include "daemon/loader/chunk_stage.h"
#include "daemon/loader/job.h"
#include "daemon/loader/job_replace.h"
#include "daemon/loader/job_report.h"

// Delivered bytes of one slice: some 50 us of a transform; long enough not to notice the system call in between, and
// short enough to keep the storage busy. At least one sample, whatever that takes.
#define SLICE_BYTES (256u << 10)

struct refusals {
    struct job_board *board;
    struct job *job;
};

static void enqueue(struct job_board *board, struct job *job) {
    job_set_state(job, JOB_STAGING);
    board->staging_reads += job->plan.request_count;
    STAILQ_INSERT_TAIL(&board->staging, job, link);
}

// Its samples are there, as far as they can be read: replaces the others, or reports the chunk.
static void complete(struct job_board *board, struct job *job) {
    while (!job->failed && job_replace_next(board, job)) {
        if (job->outstanding) {
            if (job->state == JOB_STAGING)
                job_set_state(job, JOB_READING);
            STAILQ_INSERT_TAIL(&board->pending, job, link);
            return;
        }
        if (chunk_has_stages(&job->plan)) {
            if (job->state == JOB_STAGING)
                job_set_state(job, JOB_READING);
            enqueue(board, job);
            return;
        }
    }
    job_report(board, job);
}

void job_stage_enqueue(struct job_board *board, struct job *job) {
    if (job->failed || !chunk_has_stages(&job->plan))
        complete(board, job);
    else
        enqueue(board, job);
}

static void take_refusal(void *context, const struct chunk_refusal *refusal) {
    const struct refusals *refusals = context;
    const struct job_failure failure = {.sample = refusal->sample,
                                        .code = refusal->error->code,
                                        .file = refusal->file,
                                        .offset = refusal->offset,
                                        .stage = refusal->stage,
                                        .sentence = refusal->error->text};
    job_sample_failed(refusals->board, refusals->job, &failure);
}

void job_stage_slice(struct job_board *board) {
    struct job *job = STAILQ_FIRST(&board->staging);
    struct refusals refusals = {board, job};
    uint64_t most = max_u64(1, SLICE_BYTES / max_u64(board->sample_bytes, 1));
    const bool slow = chunk_has_slow_stages(&job->plan);
    if (slow)
        most = 1;
    uint32_t count = (uint32_t)min_u64(most, job->plan.claim.count - job->staged);
    // Transforms of values are a part of filling.
    const enum loader_counter counter = slow ? LOADER_decode_ns : LOADER_fill_ns;
    uint64_t before = job_clock_spend(&board->clock, LOADER_fill_ns);
    job->plan.patient = job->lacking + 1 < JOB_ATTEMPTS;
    const bool done = chunk_stage_run(&job->plan, job->staged, count, take_refusal, &refusals);
    job->staged_ns += job_clock_spend(&board->clock, counter) - before;
    if (!done) {
        job_lacks(board, before, &job->lacking);
        return;
    }
    job->lacking = 0;
    job->staged += count;
    if (job->staged < job->plan.claim.count && !job->failed)
        return;
    STAILQ_REMOVE_HEAD(&board->staging, link);
    board->staging_reads -= job->plan.request_count;
    latency_add(&board->stats->latencies[LOADER_LATENCY_decode], job->staged_ns, 1);
    complete(board, job);
}
