#include "daemon/supervisor/clients/list_job.h"

#include <fcntl.h>
#include <string.h>
#include <xxhash.h>

#include "base/scope.h"
#include "daemon/dataset/list_memory.h"
#include "daemon/supervisor/clients/brought_words.h"
#include "daemon/supervisor/task.h"
#include "order/draw.h"
#include "order/shares.h"

struct list_job {
    const struct brought *brought; // only for the loop
    struct task *task;
    bool done;
    // The thread's, until it is done.
    int fd; // closed by the thread: if nobody else has the memory any more, that takes long
    uint32_t kind, dtype;
    bool chooses;
    uint64_t of, bytes; // of the memory
    struct list_made made;
    int err;
};

// How often samples count lies where the table's other half will be, so it is used before that is made.
static int sum_up(struct list_job *job, uint64_t *words) {
    const uint32_t *times = (const uint32_t *)(words + job->of);
    if (!job->chooses)
        return shares_sum(job->dtype, words, job->of);
    job->made.chosen_hash = XXH3_64bits(times, job->of * sizeof *times);
    return shares_sum_times(job->dtype, words, times, job->of);
}

static int fill(struct list_job *job, struct dataset_list *list) {
    int err = sum_up(job, list->words);
    if (err)
        return err;
    draw_prepare(list->words, job->of);
    job->made.seed = XXH3_64bits(list->words, job->of * sizeof *list->words);
    return 0;
}

static int make_table(struct list_job *job) {
    struct dataset_list *list = NULL;
    int err = list_memory_map(job->fd, job->bytes, NULL, &list);
    if (!err)
        err = fill(job, list);
    list_memory_unmap(&list, job->bytes);
    return err;
}

static void run(void *context) {
    struct list_job *job = context;
    job->err = job->kind == SELECTION_WEIGHTED_1 ? make_table(job) : 0;
    if (!job->err)
        job->err = list_memory_seal(job->fd);
    close_fd(&job->fd);
}

static void on_ended(void *context) {
    struct list_job *job = context;
    job->done = true;
    brought_mark_sessions(job->brought);
}

static void discard(void *context) {
    free(context);
}

int list_job_start(const struct brought *brought, int fd, struct list_job **started, struct error *error) {
    const struct brought_want *want = &brought->want;
    struct list_job *job = calloc(1, sizeof *job);
    if (!job)
        return error_set(error, -ENOMEM, "out of memory");
    *job = (struct list_job){.brought = brought,
                             .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
                             .kind = want->selection.kind,
                             .dtype = want->dtype,
                             .chooses = want->chooses,
                             .of = want->selection.of,
                             .bytes = brought_words_memory(want),
                             .made = {.seed = want->selection.seed}};
    const struct task_work work = {.run = run, .ended = on_ended, .discard = discard, .context = job};
    int err = job->fd < 0 ? -errno : task_start(&brought->supervisor->poll_set, &work, &job->task);
    if (!err) {
        *started = job;
        return 0;
    }
    close_fd(&job->fd);
    free(job);
    return error_set(error, err, "cannot start a thread for the view: %s", strerror(-err));
}

bool list_job_is_done(const struct list_job *job) {
    return job->done;
}

int list_job_result(const struct list_job *job, struct list_made *made, struct error *error) {
    *made = job->made;
    if (job->err == -ENODATA)
        return error_set(error, -EINVAL, "weights: all of them%s are 0, wanted at least one above 0",
                         job->chooses ? " that the view chooses" : "");
    if (job->err)
        return error_set(error, job->err, "cannot keep the view in memory: %s", strerror(-job->err));
    return 0;
}

void list_job_leave(struct list_job *job) {
    task_leave(job->task);
}
