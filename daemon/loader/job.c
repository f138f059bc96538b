#include "daemon/loader/job.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/log.h"
#include "order/order.h"
#include "shm/ring_loader.h"
#include "shm/stats.h"

#define ATTEMPTS         3u // at a read, before the feed's policy is asked
#define LINES_A_SECOND   5u
#define PLAN_MEMORY      (4u << 20)
#define BYTES_PER_SAMPLE 160u // of a plan, about
#define APART_MEMORY     (32u << 20)

int job_board_open(struct job_board *board, struct error *error) {
    const struct ring_header *header = board->ring.header;
    STAILQ_INIT(&board->idle);
    STAILQ_INIT(&board->pending);
    board->retries_end = &board->retries;
    board->sample_bytes = ring_sample_bytes(header->fields, header->field_count);
    // Enough to keep `queue_depth` reads in flight while others are being planned and reported.
    uint64_t wanted = divide_up(2ull * board->settings->queue_depth, header->chunk_samples);
    uint64_t most = max_u64(2, PLAN_MEMORY / (header->chunk_samples * (uint64_t)BYTES_PER_SAMPLE));
    uint64_t apart = chunk_apart_bytes(&board->settings->layout, &board->ring);
    most = max_u64(2, min_u64(most, APART_MEMORY / max_u64(apart, 1)));
    board->job_count = (uint32_t)min_u64(max_u64(2, wanted), most);
    board->jobs = calloc(board->job_count, sizeof *board->jobs);
    if (!board->jobs)
        return error_set(error, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < board->job_count; i++) {
        struct job *job = &board->jobs[i];
        int err = chunk_plan_init(&job->plan, &board->settings->layout, &board->ring, error);
        if (err)
            return err;
        job->plan.chunk = job;
        STAILQ_INSERT_TAIL(&board->idle, job, link);
    }
    return 0;
}

void job_board_close(struct job_board *board) {
    for (uint32_t i = 0; board->jobs && i < board->job_count; i++)
        chunk_plan_free(&board->jobs[i].plan);
    free(board->jobs);
    board->jobs = NULL;
}

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

static void wake_supervisor(const struct job_board *board) {
    uint64_t one = 1;
    if (write(board->event_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_error("cannot wake the supervisor: %m");
}

static void report(struct job_board *board, struct job *job) {
    const struct ring_claim *claim = &job->claim;
    bool wake;
    if (job->failed) {
        wake = ring_chunk_failed(&board->ring, claim, job->code, job->file, job->offset, job->sample);
    } else {
        chunk_plan_transform(&job->plan);
        stats_add(&board->stats->counters[LOADER_samples], claim->count - job->skipped);
        stats_add(&board->stats->counters[LOADER_bytes], (claim->count - job->skipped) * board->sample_bytes);
        stats_add(&board->stats->counters[LOADER_skipped], job->skipped);
        wake = ring_chunk_done(&board->ring, claim, job->skipped);
    }
    board->busy--;
    STAILQ_INSERT_HEAD(&board->idle, job, link); // the one used last is still in the cache
    if (wake)
        wake_supervisor(board);
}

static void repair(struct job_board *board, const struct ring_claim *claim) {
    ring_repair(&board->ring, claim);
    if (ring_chunk_done(&board->ring, claim, 0))
        wake_supervisor(board);
}

bool job_start(struct job_board *board) {
    struct job *job = STAILQ_FIRST(&board->idle);
    if (!job || !ring_claim(&board->ring, board->settings->serial, &job->claim))
        return false;
    if (job->claim.chunk == RING_REPAIR_CHUNK) {
        repair(board, &job->claim);
        return true;
    }
    STAILQ_REMOVE_HEAD(&board->idle, link);
    board->busy++;
    order_samples(order_of(board, job->claim.epoch), job->claim.first_position, job->claim.count,
                  job->plan.samples);
    job->submitted = job->skipped = 0;
    job->failed = false;
    int err = chunk_plan_fill(&job->plan, &job->claim, board->plan_flags);
    if (err) {
        // Only if ring and dataset contradict each other, which init has ruled out.
        job->failed = true;
        job->code = err;
        report(board, job);
        return true;
    }
    job->outstanding = job->plan.request_count;
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
            if (reader->submit(reader, &job->plan.requests[job->submitted]) < 0)
                return;
            job->submitted++;
        }
        STAILQ_REMOVE_HEAD(&board->pending, link);
    }
}

static void add_retry(struct job_board *board, struct read_request *request) {
    request->next = NULL;
    *board->retries_end = request;
    board->retries_end = &request->next;
}

// A read of several samples is tried again sample by sample, so that one bad place costs one sample.
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

// A file that has lost its end has a great many of them: a few lines a second, and how many more there were.
static void tell(struct job_board *board, const struct read_request *request, uint64_t sample) {
    enum log_level level = board->settings->skip_errors ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR;
    uint64_t now = monotonic_ns();
    if (now - board->told_ns >= NS_PER_S) {
        if (board->untold)
            log_write(level, "%" PRIu64 " more samples could not be read", board->untold);
        board->told_ns = now;
        board->told = 0;
        board->untold = 0;
    }
    if (board->told++ >= LINES_A_SECOND) {
        board->untold++;
        return;
    }
    log_write(level,
              "sample %" PRIu64 " cannot be read: file %" PRIu32 " of the dataset, offset %" PRIu64 ": %s",
              sample, request->file, request->offset,
              request->result == -ENODATA ? "the file ends there" : strerror(-request->result));
}

static void skip_sample(struct job_board *board, struct job *job, const struct read_request *request,
                        uint32_t index) {
    uint32_t in_chunk = chunk_request_sample(&job->plan, request, index);
    tell(board, request, job->plan.samples[in_chunk]);
    if (!chunk_plan_mark_failed(&job->plan, request, index))
        return; // another read of the same sample has failed before
    ring_skip_sample(&board->ring, &job->claim, job->claim.first_sample + in_chunk);
    job->skipped++;
}

static void fail_job(struct job_board *board, struct job *job, const struct read_request *request) {
    uint64_t sample = job->plan.samples[chunk_request_sample(&job->plan, request, 0)];
    tell(board, request, sample);
    if (job->failed)
        return;
    job->failed = true;
    job->code = request->result;
    job->file = request->file;
    job->offset = request->offset;
    job->sample = sample;
}

static void give_up(struct job_board *board, struct job *job, const struct read_request *request) {
    if (!board->settings->skip_errors) {
        fail_job(board, job, request);
        return;
    }
    // One sample, unless there was no memory to split the request.
    for (uint32_t i = 0; i < request->sample_count; i++)
        skip_sample(board, job, request, i);
}

void job_finish(struct job_board *board, struct read_request *list) {
    struct read_request *next;
    for (struct read_request *request = list; request; request = next) {
        struct job *job = request->chunk;
        next = request->next;
        if (request->result < 0) {
            stats_add(&board->stats->counters[LOADER_read_errors], 1);
            if (!job->failed && retry(board, job, request))
                continue;
            give_up(board, job, request);
        }
        if (--job->outstanding == 0)
            report(board, job);
    }
}
