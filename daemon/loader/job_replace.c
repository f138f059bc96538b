#include "daemon/loader/job_replace.h"

#include "daemon/loader/job_blocks.h"
#include "daemon/loader/job_report.h"
#include "order/replace.h"

bool job_replace_wanted(struct job *job, uint32_t sample) {
    if (!job->attempt)
        job->bad[job->bad_count++] = sample;
    job->attempt_failed = job->attempt != 0;
    return job->attempt < REPLACE_ATTEMPTS;
}

static uint64_t find_sample(const struct job_board *board, const struct ring_claim *claim, uint32_t attempt) {
    if (board->mix)
        return mix_parts_replacement(board->mix, board->ring.header->samples, claim, attempt);
    return sampler_replacement(&board->sampler, claim->epoch, claim->first_position, attempt);
}

static uint32_t attempt_at(const struct job *job, uint32_t sample) {
    const struct ring_claim *claim = &job->claim;
    // Relaxed: published with the chunk.
    return atomic_load_explicit(&ring_attempts(job->plan.ring, claim->slot)[claim->first_sample + sample],
                                memory_order_relaxed);
}

uint32_t job_replace_placed(const struct job_board *board, struct job *job) {
    const struct ring_claim *claim = &job->claim;
    struct ring_claim place = *claim;
    uint32_t replaced = 0;
    for (uint32_t i = 0; board->ring.header->attempts_offset && i < claim->count; i++) {
        uint32_t attempt = attempt_at(job, i);
        if (!attempt)
            continue;
        place.first_position = claim->first_position + i;
        job->plan.samples[i] = find_sample(board, &place, attempt);
        replaced++;
    }
    return replaced;
}

bool job_replace_again(const struct job *job, uint32_t sample) {
    return attempt_at(job, sample) < REPLACE_ATTEMPTS;
}

// The sample that takes the place, in this attempt.
static int fill_plan(struct job_board *board, struct job *job) {
    struct ring_claim claim = job->claim;
    uint32_t place = job->bad[job->replaced];
    claim.first_sample += place;
    claim.first_position += place;
    claim.count = 1;
    job->plan.samples[0] = find_sample(board, &claim, job->attempt);
    return job_board_plan(board, job, &claim);
}

bool job_replace_next(struct job_board *board, struct job *job) {
    if (job->attempt && !job->attempt_failed) {
        job->replaced++;
        job->attempt = 0;
    }
    if (job->replaced == job->bad_count)
        return false;
    job->attempt++;
    job->attempt_failed = false;
    int err = fill_plan(board, job);
    if (err) { // as in job_start
        job->failed = true;
        job->code = err;
        job->file = UINT32_MAX;
        return false;
    }
    job_leave_incomplete(board, job);
    if (job->failed)
        return false;
    job->submitted = job->staged = 0;
    job->outstanding = job->plan.request_count;
    job_blocks_begin(board, job);
    // Jobs that were claimed after this one overtake it, which does not mean that its reads hang.
    job->claimed_ns = job->moved_ns = board->now_ns;
    return true;
}
