#include "daemon/loader/job_blocks.h"

#include <unistd.h>

#include "base/sizes.h"
#include "daemon/loader/chunk_blocks.h"
#include "daemon/loader/job.h"
#include "daemon/loader/job_report.h"

// The memory that the loaders of the feed share. Closes its descriptor.
static int open_share(struct job_board *board, const struct block_share **share, struct error *error) {
    const struct loader_settings *settings = board->settings;
    if (!settings->share.blocks)
        return 0;
    int err =
        block_share_open(&board->share, &settings->share, settings->share_arena, HERITAGE_BLOCKS, error);
    close(HERITAGE_BLOCKS);
    *share = &board->share;
    return err;
}

int job_blocks_open(struct job_board *board, struct error *error) {
    const struct dataset_blocks *blocks = &board->settings->layout.blocks;
    const struct block_share *share = NULL;
    if (!blocks->memory)
        return 0;
    int err = open_share(board, &share, error);
    return err ? err : block_cache_open(&board->blocks, blocks->work_memory, blocks->memory, share, error);
}

static void want(struct job_board *board, struct job *job, struct chunk_need *need) {
    const struct chunk_plan *plan = &job->plan;
    const struct chunk_segment *segment = &plan->segments[need->segment];
    const struct chunk_part *part = &plan->parts[segment->part];
    const struct index_block *block = chunk_blocks(plan, segment) + need->block;
    const uint64_t number = part->first_block + need->block;
    struct block_found found;
    if (block_cache_find(board->blocks, number, block, &found)) {
        chunk_blocks_copy(plan, need, found.decoded);
        if (block_cache_held(board->blocks, &found))
            return;
    }
    need->wait =
        (struct block_wait){.number = number, .block = block, .file = part->first_file + block->file};
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
        struct job_failure failure = {
            .sample = job->plan.need_samples[need->first_sample + i],
            .code = result->code,
            .file = result->file,
            .offset = result->offset,
            .sentence = result->sentence ? result->sentence : dataset_read_reason(false, result->code)};
        if (chunk_plan_mark_failed(&job->plan, failure.sample))
            job_sample_failed(board, job, &failure);
    }
}

// Returns false if the block was gone before all was copied: then it is wanted again.
static bool take(struct job_board *board, struct block_wait *wait, const struct block_result *result) {
    const struct chunk_need *need = CONTAINER_OF(wait, struct chunk_need, wait);
    struct job *job = need->chunk;
    if (!result->found.decoded) {
        fail(board, job, need, result);
        return true;
    }
    chunk_blocks_copy(&job->plan, need, result->found.decoded);
    if (block_cache_held(board->blocks, &result->found))
        return true;
    block_cache_want(board->blocks, wait);
    return false;
}

static void take_block(void *context, const struct block_result *result) {
    struct job_board *board = context;
    struct block_wait *next;
    for (struct block_wait *wait = result->waiting; wait; wait = next) {
        struct job *job = CONTAINER_OF(wait, struct chunk_need, wait)->chunk;
        next = wait->next; // a job that is complete fills its needs again
        job->moved_ns = board->now_ns;
        if (!take(board, wait, result))
            continue;
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
    if (request->result < 0 && job_tries_again(board, request))
        job_add_read(board, request);
    else
        block_cache_read(board->blocks, request, board->now_ns);
}

bool job_blocks_pending(const struct job_board *board) {
    return board->blocks && block_cache_has_read(board->blocks);
}

void job_blocks_decode(struct job_board *board) {
    const struct block_counts before = block_cache_counts(board->blocks);
    const uint64_t began = job_clock_spend(&board->clock, LOADER_fill_ns);
    const bool patient = board->blocks_lacking + 1 < JOB_ATTEMPTS;
    const bool done = block_cache_decode(board->blocks, patient, take_block, board);
    const uint64_t took = job_clock_spend(&board->clock, LOADER_decode_ns) - began;
    if (done)
        board->blocks_lacking = 0;
    else
        job_lacks(board, began, &board->blocks_lacking);
    const struct block_counts after = block_cache_counts(board->blocks);
    if (after.decoded > before.decoded)
        latency_add(&board->stats->latencies[LOADER_LATENCY_decode], took / (after.decoded - before.decoded),
                    after.decoded - before.decoded);
    stats_add(&board->stats->counters[LOADER_blocks], after.decoded - before.decoded);
    stats_add(&board->stats->counters[LOADER_block_bytes], after.decoded_bytes - before.decoded_bytes);
}

bool job_blocks_wait_for_others(const struct job_board *board) {
    return board->blocks && block_cache_waits_for_others(board->blocks);
}

bool job_blocks_rest(const struct job_board *board, const struct reader *reader) {
    return job_blocks_wait_for_others(board) && block_cache_is_at_rest(board->blocks) && !reader->in_flight &&
           !board->retries && STAILQ_EMPTY(&board->pending) && !job_staging(board);
}
