#include "daemon/loader/job_blocks.h"

#include "base/sizes.h"
#include "daemon/loader/chunk_blocks.h"
#include "daemon/loader/job.h"
#include "daemon/loader/job_report.h"

int job_blocks_open(struct job_board *board, struct error *error) {
    const struct dataset_blocks *blocks = &board->settings->layout.blocks;
    if (!blocks->memory)
        return 0;
    return block_cache_open(&board->blocks, blocks->work_memory, blocks->memory, error);
}

static void want(struct job_board *board, struct job *job, struct chunk_need *need) {
    const struct chunk_plan *plan = &job->plan;
    const struct chunk_segment *segment = &plan->segments[need->segment];
    const struct block_name name = {segment->part, need->block};
    const uint8_t *decoded = block_cache_find(board->blocks, name);
    if (decoded) {
        chunk_blocks_copy(plan, need, decoded);
        return;
    }
    const struct index_block *block = chunk_blocks(plan, segment) + need->block;
    need->wait = (struct block_wait){
        .name = name, .block = block, .file = plan->parts[segment->part].first_file + block->file};
    block_cache_want(board->blocks, &need->wait);
    job->outstanding++;
    job->awaited++;
}

void job_blocks_begin(struct job_board *board, struct job *job) {
    job->awaited = 0;
    for (uint32_t i = 0; i < job->plan.need_count; i++)
        want(board, job, &job->plan.needs[i]);
}

static void fail(struct job_board *board, struct job *job, const struct chunk_need *need,
                 const struct block_result *result) {
    for (uint32_t i = 0; i < need->sample_count; i++) {
        struct job_failure failure = {.sample = job->plan.need_samples[need->first_sample + i],
                                      .code = result->code,
                                      .file = result->file,
                                      .offset = result->offset,
                                      .sentence = result->damaged ? result->sentence
                                                                  : dataset_read_reason(false, result->code)};
        if (chunk_plan_mark_failed(&job->plan, failure.sample))
            job_sample_failed(board, job, &failure);
    }
}

static void take_block(void *context, const struct block_result *result) {
    struct job_board *board = context;
    struct block_wait *next;
    for (struct block_wait *wait = result->waiting; wait; wait = next) {
        const struct chunk_need *need = CONTAINER_OF(wait, struct chunk_need, wait);
        struct job *job = need->chunk;
        next = wait->next; // a job that is complete fills its needs again
        job->moved_ns = board->now_ns;
        if (result->decoded)
            chunk_blocks_copy(&job->plan, need, result->decoded);
        else
            fail(board, job, need, result);
        job->awaited--;
        job_outstanding_done(board, job);
    }
}

void job_blocks_load(struct job_board *board) {
    struct read_request *list, *next;
    while (board->blocks && (list = block_cache_start(board->blocks, board->now_ns, take_block, board)))
        for (; list; list = next) {
            next = list->next;
            job_add_read(board, list);
        }
}

void job_blocks_finish(struct job_board *board, struct read_request *request) {
    if (request->result < 0 && ++request->attempts < JOB_ATTEMPTS)
        job_add_read(board, request);
    else
        block_cache_read(board->blocks, request, board->now_ns);
}

bool job_blocks_pending(const struct job_board *board) {
    return board->blocks && block_cache_has_read(board->blocks);
}

void job_blocks_decode(struct job_board *board) {
    const struct block_counts before = block_cache_counts(board->blocks);
    block_cache_decode(board->blocks, take_block, board);
    const struct block_counts after = block_cache_counts(board->blocks);
    stats_add(&board->stats->counters[LOADER_blocks], after.decoded - before.decoded);
    stats_add(&board->stats->counters[LOADER_block_bytes], after.decoded_bytes - before.decoded_bytes);
}
