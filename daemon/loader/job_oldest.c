#include "daemon/loader/job_oldest.h"

// Not one whose reads have all come back, and that waits for blocks.
static bool is_reading(const struct job *job) {
    return job->state == JOB_READING && job->submitted && (!job->awaited || job->outstanding > job->awaited);
}

static const struct job *oldest_job(const struct job_board *board) {
    const struct job *oldest = NULL;
    for (uint32_t i = 0; i < board->job_count; i++) {
        const struct job *job = &board->jobs[i];
        if (is_reading(job) && (!oldest || job->moved_ns < oldest->moved_ns))
            oldest = job;
    }
    return oldest;
}

// If none of the plan's requests is under way, the read was split into others of the same file after it had failed.
static uint32_t file_of(const struct job *job) {
    uint32_t file = job->plan.requests[0].file;
    for (uint32_t i = 0; i < job->submitted; i++) {
        const struct read_request *request = &job->plan.requests[i];
        if (!request->finished)
            return request->file;
        if (request->result < 0)
            file = request->file;
    }
    return file;
}

struct oldest_read job_oldest_read(const struct job_board *board) {
    const struct job *job = oldest_job(board);
    struct oldest_read oldest = {0};
    oldest.any = board->blocks && block_cache_oldest(board->blocks, &oldest.file, &oldest.since_ns);
    if (job && (!oldest.any || job->moved_ns < oldest.since_ns))
        oldest = (struct oldest_read){.any = true, .file = file_of(job), .since_ns = job->moved_ns};
    if (oldest.any && board->latest_ns > oldest.since_ns)
        oldest.overtaken_ns = board->latest_ns - oldest.since_ns;
    return oldest;
}
