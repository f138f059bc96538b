#include "daemon/supervisor/clients/list_job.h"

#include <fcntl.h>
#include <string.h>
#include <xxhash.h>

#include "base/scope.h"
#include "daemon/dataset/list_memory.h"
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
    uint64_t of, seed;
    int err;
};

static int fill(struct list_job *job, struct dataset_list *list) {
    int err = shares_sum(job->dtype, list->words, job->of);
    if (err)
        return err;
    draw_prepare(list->words, job->of);
    job->seed = XXH3_64bits(list->words, job->of * sizeof *list->words);
    return 0;
}

static int make_table(struct list_job *job) {
    const uint64_t bytes = sizeof(struct dataset_list) + draw_bytes(job->of);
    struct dataset_list *list = NULL;
    int err = list_memory_map(job->fd, bytes, NULL, &list);
    if (!err)
        err = fill(job, list);
    list_memory_unmap(&list, bytes);
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
                             .of = want->selection.of,
                             .seed = want->selection.seed};
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

int list_job_result(const struct list_job *job, uint64_t *seed, struct error *error) {
    *seed = job->seed;
    if (job->err == -ENODATA)
        return error_set(error, -EINVAL, "weights: all of them are 0, wanted at least one above 0");
    if (job->err)
        return error_set(error, job->err, "cannot keep the view in memory: %s", strerror(-job->err));
    return 0;
}

void list_job_leave(struct list_job *job) {
    task_leave(job->task);
}
