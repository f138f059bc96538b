#include "daemon/loader/job_board.h"

#include <time.h>

#include "base/sizes.h"
#include "base/states.h"
#include "daemon/loader/chunk_varying.h"
#include "daemon/loader/job_blocks.h"
#include "daemon/on_error.h"

#define PLAN_MEMORY      (4u << 20)
#define BYTES_PER_SAMPLE 160u // of a plan, about
#define BYTES_PER_PART   512u // likewise
#define APART_MEMORY     (32u << 20)
// Of that, what idle jobs keep together: the kernel clears memory that was given back before it gives it out again.
#define KEPT_MEMORY (8u << 20)
#define SPARE_JOBS  2u
// A second in all, since nothing else is done meanwhile: less than any loader_timeout.
#define PLAN_PAUSES 20u

static const struct state states[] = {
    [JOB_IDLE] = {"idle", STATE(JOB_READING)},
    [JOB_READING] = {"reading", STATE(JOB_STAGING) | STATE(JOB_IDLE)},
    [JOB_STAGING] = {"staging", STATE(JOB_IDLE) | STATE(JOB_READING)},
};
static const struct state_table table = STATE_TABLE("loader job", states);

void job_set_state(struct job *job, enum job_state state) {
    job->state = state_next(&table, job->state, state);
}

static uint64_t apart_bytes(const struct job_board *board) {
    const struct chunk_part whole = {.layout = &board->settings->layout, .stages = board->stages};
    if (board->mix)
        return chunk_apart_bytes(board->mix->parts, board->mix->count, &board->ring);
    return chunk_apart_bytes(&whole, 1, &board->ring);
}

// The most jobs that memory allows.
static uint64_t jobs_that_fit(const struct job_board *board) {
    const uint64_t parts = board->mix ? board->mix->count : 1;
    const uint64_t plan =
        board->ring.header->chunk_samples * (uint64_t)BYTES_PER_SAMPLE + (parts - 1) * BYTES_PER_PART;
    return min_u64(PLAN_MEMORY / plan, APART_MEMORY / max_u64(apart_bytes(board), 1));
}

static int open_plan(const struct job_board *board, struct chunk_plan *plan, struct error *error) {
    const struct dataset_layout *layout = &board->settings->layout;
    const struct mix_parts *mix = board->mix;
    if (mix)
        return chunk_plan_init_mix(plan, layout, &board->ring, mix->parts, mix->count, mix->stored_samples,
                                   error);
    return chunk_plan_init(plan, layout, &board->ring, board->stages, error);
}

// A job that has one slow read keeps its chunk, so there may be a job for each read in flight, besides those whose
// chunks are being planned, staged and reported.
static uint32_t most_jobs(const struct job_board *board) {
    uint64_t samples = board->ring.header->chunk_samples, depth = board->settings->queue_depth;
    uint64_t wanted = max_u64(divide_up(2 * depth, samples), depth + SPARE_JOBS);
    return (uint32_t)max_u64(2, min_u64(wanted, jobs_that_fit(board)));
}

static void find_folders(struct job_board *board) {
    board->folder = folder_files_of(&board->settings->layout, board->index);
    board->folders = (struct folder_set){board->folder.extents != NULL, &board->folder};
    if (board->mix)
        board->folders = (struct folder_set){board->mix->folder_count, board->mix->folders};
}

int job_board_open(struct job_board *board, struct error *error) {
    const struct ring_header *header = board->ring.header;
    const struct dataset_layout *layout = &board->settings->layout;
    job_clock_start(&board->clock, board->stats, &board->trace);
    find_folders(board);
    board->ring.stripe = board->settings->stripe;
    board->ring.stripes = board->settings->stripes;
    STAILQ_INIT(&board->idle);
    STAILQ_INIT(&board->pending);
    STAILQ_INIT(&board->staging);
    board->retries_end = &board->retries;
    int err = sampler_open(&board->sampler, (enum order_version)header->order_version, header->samples,
                           header->seed, &layout->selection, board->list, dataset_list_bytes(layout), error);
    if (err)
        return err;
    board->sample_bytes = ring_sample_bytes(header->fields, header->field_count);
    board->most_jobs = most_jobs(board);
    err = job_blocks_open(board, error);
    if (err)
        return err;
    board->jobs = calloc(board->most_jobs, sizeof *board->jobs);
    return board->jobs ? job_board_add(board, error) : error_set(error, -ENOMEM, "out of memory");
}

int job_board_add(struct job_board *board, struct error *error) {
    struct job *job = &board->jobs[board->job_count];
    if (board->job_count == board->most_jobs)
        return -EAGAIN;
    int err = open_plan(board, &job->plan, error);
    if (err)
        return err;
    if (board->settings->on_error == ON_ERROR_REPLACE &&
        !(job->bad = calloc(board->ring.header->chunk_samples, sizeof *job->bad))) {
        chunk_plan_free(&job->plan);
        return error_set(error, -ENOMEM, "out of memory");
    }
    job->plan.chunk = job;
    job->plan.index = board->index;
    job->plan.stats = board->stats;
    board->job_count++;
    STAILQ_INSERT_TAIL(&board->idle, job, link);
    return 0;
}

static uint64_t varying_bytes(const struct job_board *board, bool idle) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < board->job_count; i++)
        if ((board->jobs[i].state == JOB_IDLE) == idle)
            bytes += chunk_varying_bytes(&board->jobs[i].plan);
    return bytes;
}

bool job_board_has_room(const struct job_board *board) {
    return !board->busy || varying_bytes(board, false) < APART_MEMORY;
}

// Of idle jobs, those that were used longest ago give back what is too much.
static void keep_some(const struct job_board *board, struct job *latest) {
    while (varying_bytes(board, true) > KEPT_MEMORY) {
        struct job *job, *last = latest;
        STAILQ_FOREACH(job, &board->idle, link)
            if (chunk_varying_bytes(&job->plan))
                last = job;
        chunk_varying_trim(&last->plan);
    }
}

int job_board_plan(const struct job_board *board, struct job *job, const struct ring_claim *claim) {
    int err;
    for (uint32_t attempt = 0;; attempt++) {
        err = chunk_plan_fill(&job->plan, claim, board->plan_flags);
        if (!error_is_lack(err) || attempt == PLAN_PAUSES)
            return err;
        nanosleep(&(struct timespec){.tv_nsec = LACK_PAUSE_NS}, NULL);
    }
}

void job_board_end(struct job_board *board, struct job *job) {
    job_set_state(job, JOB_IDLE);
    board->busy--;
    STAILQ_INSERT_HEAD(&board->idle, job, link); // the job used last is still in the cache
    if (chunk_varying_bytes(&job->plan))
        keep_some(board, job);
}

void job_board_close(struct job_board *board) {
    for (uint32_t i = 0; board->jobs && i < board->job_count; i++) {
        chunk_plan_free(&board->jobs[i].plan);
        free(board->jobs[i].bad);
    }
    free(board->jobs);
    sampler_close(&board->sampler);
    board->jobs = NULL;
    block_cache_close(board->blocks);
    board->blocks = NULL;
    block_share_close(&board->share);
}
