#include "daemon/loader/job.h"

#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/loader/job_blocks.h"
#include "daemon/loader/job_replace.h"
#include "daemon/loader/job_report.h"
#include "daemon/loader/job_stage.h"

static void find_samples(struct job_board *board, struct job *job) {
    const struct ring_claim *claim = &job->claim;
    if (board->mix)
        mix_parts_samples(board->mix, board->ring.header->samples, claim, job->plan.samples);
    else
        sampler_samples(&board->sampler, claim->epoch, claim->first_position, claim->count,
                        job->plan.samples);
}

bool job_start(struct job_board *board) {
    struct job *job = STAILQ_FIRST(&board->idle);
    if (!job && job_board_add(board, NULL) == 0)
        job = STAILQ_FIRST(&board->idle);
    if (!job || !ring_claim(&board->ring, board->settings->serial, &job->claim))
        return false;
    if (job->claim.chunk == RING_REPAIR_CHUNK) {
        job_repair(board, &job->claim);
        return true;
    }
    STAILQ_REMOVE_HEAD(&board->idle, link);
    job_set_state(job, JOB_READING);
    board->busy++;
    find_samples(board, job);
    job->submitted = job->staged = job->skipped = 0;
    job->bad_count = job->replaced = job->attempt = 0;
    job->placed = job_replace_placed(board, job);
    job->claimed_ns = job->moved_ns = board->now_ns;
    job->staged_ns = 0;
    job->failed = false;
    job->file = 0;
    job->offset = job->sample = 0;
    int err = job_board_plan(board, job, &job->claim);
    if (err) {
        // No memory for encoded samples; or ring and dataset contradict each other, which chunk_plan_init has ruled
        // out.
        job->failed = true;
        job->code = err;
        job->file = UINT32_MAX; // no file is to blame
        job_report(board, job);
        return true;
    }
    job_leave_incomplete(board, job);
    board->bytes_claimed += job->claim.count * board->sample_bytes + job->plan.ragged_bytes;
    job->outstanding = job->plan.request_count;
    job_blocks_begin(board, job);
    if (!job->outstanding) { // nothing but values, empty samples, and those of blocks that are there
        board->made_at_once++;
        job_stage_enqueue(board, job);
        return true;
    }
    STAILQ_INSERT_TAIL(&board->pending, job, link);
    return true;
}

static bool submit_retries(struct job_board *board, struct reader *reader) {
    while (board->retries) {
        struct read_request *request = board->retries;
        struct read_request *next = request->next;
        if (reader->submit(reader, request) < 0)
            return false;
        board->retries = next;
        if (!next)
            board->retries_end = &board->retries;
    }
    return true;
}

// It holds up other reads, too, which probably lack the same.
static void pause_for_lack(struct job_board *board) {
    if (board->pauses && monotonic_ns() >= board->paused_ns + LACK_PAUSE_NS) {
        nanosleep(&(struct timespec){.tv_nsec = LACK_PAUSE_NS}, NULL);
        board->paused_ns = monotonic_ns();
    }
    board->pauses = false;
}

void job_submit(struct job_board *board, struct reader *reader) {
    struct job *job;
    pause_for_lack(board);
    job_blocks_load(board);
    if (!submit_retries(board, reader))
        return;
    while ((job = STAILQ_FIRST(&board->pending))) {
        while (job->submitted < job->plan.request_count) {
            job->plan.requests[job->submitted].finished = false;
            if (reader->submit(reader, &job->plan.requests[job->submitted]) < 0)
                return;
            job->submitted++;
        }
        STAILQ_REMOVE_HEAD(&board->pending, link);
    }
}

void job_add_read(struct job_board *board, struct read_request *request) {
    request->next = NULL;
    request->finished = false;
    *board->retries_end = request;
    board->retries_end = &request->next;
}

void job_lacks(struct job_board *board, uint64_t began_ns, uint32_t *attempts) {
    *attempts += lack_lasts(&board->decode_lack, began_ns, monotonic_ns());
    board->pauses = true;
    // Pause even if the last pause has only just ended; otherwise, the same thing would be tried again at once.
    board->paused_ns = 0;
}

bool job_tries_again(struct job_board *board, struct read_request *request) {
    const uint64_t now = monotonic_ns();
    // -EAGAIN: somebody has a lease on the file.
    if (!error_is_lack(request->result) && request->result != -EAGAIN) {
        request->lacks = false;
        return ++request->attempts < JOB_ATTEMPTS;
    }
    board->pauses = true;
    // If the last attempt failed likewise, the lack has not been over, however long the rounds took.
    const uint64_t began = request->lacks ? board->read_lack.seen_ns : now;
    request->lacks = true;
    return !lack_lasts(&board->read_lack, began, now) || ++request->attempts < JOB_ATTEMPTS;
}

// A read of several samples is retried sample by sample, so that one bad sector costs one sample.
static bool retry(struct job_board *board, struct job *job, struct read_request *request) {
    struct read_request *list = NULL, *next;
    if (job_tries_again(board, request)) {
        job_add_read(board, request);
        return true;
    }
    int parts = chunk_plan_split(&job->plan, request, &list);
    if (parts <= 0)
        return false;
    job->outstanding += (uint32_t)parts - 1;
    for (; list; list = next) {
        next = list->next;
        job_add_read(board, list);
    }
    return true;
}

static void give_up(struct job_board *board, struct job *job, const struct read_request *request) {
    const bool in_folder = folder_set_find(&board->folders, request->file);
    const char *sentence = dataset_read_reason(in_folder, request->result);
    // One sample, unless there was no memory to split the request.
    for (uint32_t i = 0; i < request->sample_count; i++) {
        struct job_failure failure = {.sample = chunk_request_sample(&job->plan, request, i),
                                      .code = request->result,
                                      .file = request->file,
                                      .offset = request->offset,
                                      .sentence = sentence};
        if (chunk_plan_mark_failed(&job->plan, failure.sample))
            job_sample_failed(board, job, &failure);
    }
}

void job_outstanding_done(struct job_board *board, struct job *job) {
    if (--job->outstanding > 0)
        return;
    board->latest_ns = max_u64(board->latest_ns, job->claimed_ns);
    job_clock_read(&board->clock, job->claimed_ns);
    job_stage_enqueue(board, job);
}

void job_finish(struct job_board *board, struct read_request *list) {
    struct read_request *next;
    for (struct read_request *request = list; request; request = next) {
        struct job *job = request->chunk;
        next = request->next;
        request->finished = true;
        board->reads_finished++;
        if (request->result < 0)
            stats_add(&board->stats->counters[LOADER_read_errors], 1);
        if (request->segment == BLOCK_SEGMENT) {
            job_blocks_finish(board, request);
            continue;
        }
        job->moved_ns = board->now_ns;
        if (request->result < 0) {
            if (!job->failed && retry(board, job, request))
                continue;
            give_up(board, job, request);
        }
        job_outstanding_done(board, job);
    }
}
