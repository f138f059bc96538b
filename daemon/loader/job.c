#include "daemon/loader/job.h"

#include <string.h>

#include "base/sizes.h"
#include "daemon/loader/job_report.h"
#include "daemon/loader/job_stage.h"

#define ATTEMPTS 3u // per read, before on_error decides

static const struct order *order_of(struct job_board *board, uint64_t epoch) {
    const struct ring_header *header = board->ring.header;
    uint32_t place = epoch & 1;
    if (!board->order_known[place] || board->order_epochs[place] != epoch) {
        order_init(&board->orders[place], (enum order_version)header->order_version, header->samples,
                   header->seed, epoch);
        board->order_epochs[place] = epoch;
        board->order_known[place] = true;
    }
    return &board->orders[place];
}

bool job_start(struct job_board *board) {
    struct job *job = STAILQ_FIRST(&board->idle);
    if (!job || !ring_claim(&board->ring, board->settings->serial, &job->claim))
        return false;
    if (job->claim.chunk == RING_REPAIR_CHUNK) {
        job_repair(board, &job->claim);
        return true;
    }
    STAILQ_REMOVE_HEAD(&board->idle, link);
    job_set_state(job, JOB_READING);
    board->busy++;
    order_samples(order_of(board, job->claim.epoch), job->claim.first_position, job->claim.count,
                  job->plan.samples);
    selector_map(&board->selector, board->ring.header->seed, job->claim.epoch, job->plan.samples,
                 job->claim.count);
    job->submitted = job->staged = job->skipped = 0;
    job->claimed_ns = job->moved_ns = board->now_ns;
    job->failed = false;
    job->file = 0;
    job->offset = job->sample = 0;
    int err = chunk_plan_fill(&job->plan, &job->claim, board->plan_flags);
    if (err) {
        // Ring and dataset contradict each other; chunk_plan_init has ruled that out.
        job->failed = true;
        job->code = err;
        job_report(board, job);
        return true;
    }
    job->outstanding = job->plan.request_count;
    if (!job->outstanding) { // nothing but values and empty samples
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

void job_submit(struct job_board *board, struct reader *reader) {
    struct job *job;
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

static void add_retry(struct job_board *board, struct read_request *request) {
    request->next = NULL;
    request->finished = false;
    *board->retries_end = request;
    board->retries_end = &request->next;
}

// A read of several samples is retried sample by sample, so that one bad sector costs one sample.
static bool retry(struct job_board *board, struct job *job, struct read_request *request) {
    struct read_request *list = NULL, *next;
    if (++request->attempts < ATTEMPTS) {
        add_retry(board, request);
        return true;
    }
    int parts = chunk_plan_split(&job->plan, request, &list);
    if (parts <= 0)
        return false;
    job->outstanding += (uint32_t)parts - 1;
    for (; list; list = next) {
        next = list->next;
        add_retry(board, list);
    }
    return true;
}

static void give_up(struct job_board *board, struct job *job, const struct read_request *request) {
    const char *sentence = request->result == -ENODATA ? "the file ends there" : strerror(-request->result);
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

void job_finish(struct job_board *board, struct read_request *list) {
    struct read_request *next;
    for (struct read_request *request = list; request; request = next) {
        struct job *job = request->chunk;
        next = request->next;
        request->finished = true;
        job->moved_ns = board->now_ns;
        board->reads_finished++;
        if (request->result < 0) {
            stats_add(&board->stats->counters[LOADER_read_errors], 1);
            if (!job->failed && retry(board, job, request))
                continue;
            give_up(board, job, request);
        }
        if (--job->outstanding > 0)
            continue;
        board->latest_ns = max_u64(board->latest_ns, job->claimed_ns);
        job_stage_enqueue(board, job);
    }
}
