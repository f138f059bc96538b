#include "daemon/loader/job_report.h"

#include <inttypes.h>

#include "base/sentence.h"
#include "base/time.h"
#include "daemon/dataset/folder_file.h"
#include "daemon/dataset/incomplete_list.h"
#include "daemon/loader/job_replace.h"
#include "daemon/log.h"
#include "daemon/on_error.h"

#define LINES_PER_SECOND 5u
#define FILE_TEXT        256u

// A loader knows no paths, except in a folder.
static void name_file(const struct job_board *board, uint32_t file, char text[FILE_TEXT]) {
    const struct folder_files *folder = folder_set_find(&board->folders, file);
    char path[PATH_MAX];
    if (folder && path_text_get(&folder->text, folder_files_extent(folder, file)->offset, path))
        sentence_write(text, FILE_TEXT, "%s", path);
    else
        snprintf(text, FILE_TEXT, "file %" PRIu32 " of the dataset", file);
}

// A truncated file has a great many failed samples: a few lines per second, and how many more there were.
static void tell(struct job_board *board, uint64_t sample, const struct job_failure *failure) {
    enum log_level level = board->settings->on_error ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR;
    uint64_t now = monotonic_ns();
    if (now - board->told_ns >= NS_PER_S) {
        if (board->untold)
            log_write(level, "%" PRIu64 " more samples failed", board->untold);
        board->told_ns = now;
        board->told = 0;
        board->untold = 0;
    }
    if (board->told++ >= LINES_PER_SECOND) {
        board->untold++;
        return;
    }
    char what[64] = "cannot be read", file[FILE_TEXT];
    name_file(board, failure->file, file);
    if (failure->stage)
        snprintf(what, sizeof what, "was refused by its %s", failure->stage);
    log_write(level, "sample %" PRIu64 " %s: %s, offset %" PRIu64 ": %s", sample, what, file, failure->offset,
              failure->sentence);
}

static void note(struct job_board *board, uint64_t sample, const struct job_failure *failure, uint32_t fate) {
    const struct bad_report report = {.sample = sample,
                                      .offset = failure->offset,
                                      .file = failure->file,
                                      .code = (uint32_t)-failure->code,
                                      .fate = fate,
                                      .refused = failure->stage != NULL,
                                      .reason = failure->stage ? failure->sentence : NULL};
    stats_note_bad(board->stats, &report);
}

void job_sample_failed(struct job_board *board, struct job *job, const struct job_failure *failure) {
    uint64_t sample = job->plan.samples[failure->sample];
    // As its files number it.
    sample -= job->plan.parts[chunk_find_part(&job->plan, sample)].first_sample;
    bool skips = board->settings->on_error == ON_ERROR_SKIP;
    bool placed = board->ring.header->attempts_offset != 0;
    bool replaces =
        board->settings->on_error == ON_ERROR_REPLACE && !job->failed &&
        (placed ? job_replace_again(job, failure->sample) : job_replace_wanted(job, failure->sample));
    if (!failure->listed || (!skips && !replaces)) {
        tell(board, sample, failure);
        note(board, sample, failure, skips ? BAD_SKIPPED : replaces ? BAD_REPLACED : BAD_FATAL);
    }
    if (replaces && !placed)
        return;
    if (skips || replaces) {
        ring_skip_sample(&board->ring, &job->claim, job->claim.first_sample + failure->sample);
        job->skipped++;
        return;
    }
    if (job->failed)
        return;
    job->failed = true;
    job->code = failure->code;
    job->file = failure->file;
    job->offset = failure->offset;
    job->sample = sample;
}

static bool may_be_incomplete(const struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->part_count; i++)
        if (plan->parts[i].layout->incomplete_offset)
            return true;
    return false;
}

void job_leave_incomplete(struct job_board *board, struct job *job) {
    struct chunk_plan *plan = &job->plan;
    struct job_failure failure = {.code = -INCOMPLETE_ERROR, .sentence = "it is incomplete", .listed = true};
    if (!may_be_incomplete(plan))
        return;
    for (failure.sample = 0; failure.sample < plan->claim.count; failure.sample++) {
        if (!chunk_is_incomplete(plan, failure.sample) || !chunk_plan_mark_failed(plan, failure.sample))
            continue;
        const struct chunk_part *part = &plan->parts[chunk_find_part(plan, plan->samples[failure.sample])];
        failure.file = dataset_find_file(plan->layout, part->layout->streams,
                                         plan->samples[failure.sample] - part->first_sample, 0);
        job_sample_failed(board, job, &failure);
    }
}

static void wake_supervisor(const struct job_board *board) {
    uint64_t one = 1;
    if (write(board->event_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_error("cannot wake the supervisor: %m");
}

void job_report(struct job_board *board, struct job *job) {
    const struct ring_claim *claim = &job->claim;
    bool wake;
    if (job->failed) {
        wake = ring_chunk_failed(&board->ring, claim, job->code, job->file, job->offset, job->sample);
    } else {
        uint32_t delivered = claim->count - job->skipped;
        stats_add(&board->stats->counters[LOADER_samples], delivered);
        stats_add(&board->stats->counters[LOADER_bytes],
                  delivered * board->sample_bytes + job->plan.ragged_bytes);
        bool skips = board->settings->on_error == ON_ERROR_SKIP;
        stats_add(&board->stats->counters[LOADER_skipped], skips ? job->skipped : 0);
        stats_add(&board->stats->counters[LOADER_replaced], job->replaced + job->placed);
        wake = ring_chunk_done(&board->ring, claim, job->skipped);
        job_clock_filled(&board->clock, job->claimed_ns);
    }
    job_board_end(board, job);
    if (wake)
        wake_supervisor(board);
}

void job_repair(struct job_board *board, const struct ring_claim *claim) {
    int err = ring_repair(&board->ring, claim);
    if (err ? ring_chunk_failed(&board->ring, claim, err, UINT32_MAX, 0, 0)
            : ring_chunk_done(&board->ring, claim, 0))
        wake_supervisor(board);
}
