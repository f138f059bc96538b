#include "daemon/loader/job_round.h"

#include "base/time.h"
#include "daemon/loader/chunk_stage.h"
#include "daemon/loader/job_blocks.h"
#include "daemon/loader/job_stage.h"

// A round claims no more than this. The kernel reads from the page cache while reads are submitted, so otherwise a
// loader would take all chunks of large samples for itself, also those of other loaders' stripes, and report none of
// them before it has read them all.
#define ROUND_BYTES (256u << 10)
// Until a loader has claimed this much, it takes one chunk per round, and waits for no read before it looks for the
// next: loaders that start a moment later get their share of a feed's first batch.
#define FIRST_BYTES (1u << 20)
// How long a loader sleeps that has nothing to do until others have decoded a block, which takes them some ms; and how
// long it waits for reads meanwhile.
#define OTHERS_NS (200u * 1000)
#define OTHERS_MS 1

// The reads of jobs that wait behind the one whose stages are running.
static uint32_t backlog(const struct job_board *board) {
    const struct job *first = STAILQ_FIRST(&board->staging);
    return first ? board->staging_reads - first->plan.request_count : 0;
}

// What a slow stage has before it while it works on one chunk: one more, so that it never waits. A round claims a few,
// so that those of slow storage become many, and of the page cache few.
#define SLOW_BACKLOG 2u
#define SLOW_ROUND   4u

// A loader with slow stages leaves chunks to others, however fast they are read, and takes no more when those that it
// has need much memory.
static bool has_enough(const struct job_board *board) {
    const struct job *first = STAILQ_FIRST(&board->staging);
    if (!job_board_has_room(board))
        return true;
    if (!first || !chunk_has_slow_stages(&first->plan))
        return false;
    uint32_t jobs = 0;
    for (const struct job *job = first; job && jobs < SLOW_BACKLOG; job = STAILQ_NEXT(job, link))
        jobs++;
    return jobs == SLOW_BACKLOG;
}

// A copying reader works while it is asked for results, so it takes one chunk at a time and leaves the others to the
// other loaders. One that waits for storage takes as many as it can have in flight, less its backlog: a loader whose
// stages are slow must not hoard chunks. Whoever waits for blocks of others goes on to chunks that need other blocks.
static bool wants_more(const struct job_board *board, const struct reader *reader) {
    if (reader->kind == READER_MAPPED)
        return board->busy == 0 || (job_blocks_rest(board, reader) && !has_enough(board));
    return reader->in_flight + backlog(board) < reader->depth && !has_enough(board);
}

static struct read_request *wait_for_reads(struct job_board *board, struct reader *reader) {
    struct read_request *list = reader->reap(reader, 0);
    if (list || !reader->in_flight)
        return list;
    job_clock_spend(&board->clock, LOADER_fill_ns);
    list = reader->reap(reader, job_blocks_wait_for_others(board) ? OTHERS_MS : ROUND_WAIT_MS);
    job_clock_spend(&board->clock, LOADER_io_wait_ns);
    return list;
}

static void wait_for_others(struct job_board *board) {
    job_clock_spend(&board->clock, LOADER_fill_ns);
    nanosleep(&(struct timespec){.tv_nsec = OTHERS_NS}, NULL);
    job_clock_spend(&board->clock, LOADER_decode_ns);
}

bool job_round(struct job_board *board, struct reader *reader, bool claim) {
    // Reads in flight end the claims of a round. A job without reads is the last one, or a loader that is slower than
    // its consumers would never come back from here.
    uint64_t made = board->made_at_once, before = board->bytes_claimed, enough = before + ROUND_BYTES;
    const bool begins = before < FIRST_BYTES;
    uint32_t more = begins ? 1 : chunk_has_slow_stages(&board->jobs->plan) ? SLOW_ROUND : UINT32_MAX;
    do
        job_submit(board, reader);
    while (claim && more-- > 0 && wants_more(board, reader) && !job_waiting(board) &&
           board->bytes_claimed < enough && job_start(board) && board->made_at_once == made);
    // Before the stages run, the reader gives what was submitted to the kernel: storage works meanwhile.
    bool staging = job_staging(board) || job_blocks_pending(board);
    bool rests = job_blocks_rest(board, reader);
    bool comes_back = begins && board->bytes_claimed > before;
    bool goes_on = staging || board->bytes_claimed >= enough || comes_back;
    if (reader->in_flight)
        job_finish(board, goes_on ? reader->reap(reader, 0) : wait_for_reads(board, reader));
    if (job_blocks_pending(board))
        job_blocks_decode(board);
    if (job_staging(board))
        job_stage_slice(board);
    if (rests && !goes_on && board->made_at_once == made)
        wait_for_others(board);
    return staging || comes_back || board->busy || board->made_at_once != made;
}
