#include "daemon/loader/job_board.h"

#include "base/sizes.h"
#include "base/states.h"

#define PLAN_MEMORY      (4u << 20)
#define BYTES_PER_SAMPLE 160u // of a plan, about
#define APART_MEMORY     (32u << 20)

static const struct state states[] = {
    [JOB_IDLE] = {"idle", STATE(JOB_READING)},
    [JOB_READING] = {"reading", STATE(JOB_STAGING) | STATE(JOB_IDLE)},
    [JOB_STAGING] = {"staging", STATE(JOB_IDLE)},
};
static const struct state_table table = STATE_TABLE("loader job", states);

void job_set_state(struct job *job, enum job_state state) {
    job->state = state_next(&table, job->state, state);
}

int job_board_open(struct job_board *board, struct error *error) {
    const struct ring_header *header = board->ring.header;
    STAILQ_INIT(&board->idle);
    STAILQ_INIT(&board->pending);
    STAILQ_INIT(&board->staging);
    board->retries_end = &board->retries;
    selector_init(&board->selector, &board->settings->layout.selection, board->list);
    board->sample_bytes = ring_sample_bytes(header->fields, header->field_count);
    // Enough to keep `queue_depth` reads in flight while others are being planned, staged and reported.
    uint64_t wanted = divide_up(2ull * board->settings->queue_depth, header->chunk_samples);
    uint64_t most = max_u64(2, PLAN_MEMORY / (header->chunk_samples * (uint64_t)BYTES_PER_SAMPLE));
    uint64_t apart = chunk_apart_bytes(&board->settings->layout, &board->ring, board->stages);
    most = max_u64(2, min_u64(most, APART_MEMORY / max_u64(apart, 1)));
    board->job_count = (uint32_t)min_u64(max_u64(2, wanted), most);
    board->jobs = calloc(board->job_count, sizeof *board->jobs);
    if (!board->jobs)
        return error_set(error, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < board->job_count; i++) {
        struct job *job = &board->jobs[i];
        int err = chunk_plan_init(&job->plan, &board->settings->layout, &board->ring, board->stages, error);
        if (err)
            return err;
        job->plan.chunk = job;
        job->plan.index = board->index;
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
