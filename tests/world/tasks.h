// Tasks (daemon/supervisor/task.h) where there are no threads: they run when __wrap_uv_queue_work has jobs run.
// Included once per program, which has task_start and task_leave wrapped.
#ifndef FEEDD_TESTS_WORLD_TASKS_H
#define FEEDD_TESTS_WORLD_TASKS_H

#include <stdlib.h>
#include <uv.h>

#include "base/sizes.h"
#include "daemon/supervisor/task.h"

int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb after);
int __wrap_task_start(struct poll_set *set, const struct task_work *work, struct task **task);
bool __wrap_task_leave(struct task *task);

struct task {
    uv_work_t job;
    struct task_work work;
    bool ended, left;
};

static void release_task(struct task *task) {
    task->work.discard(task->work.context);
    free(task);
}

static void run_task(uv_work_t *job) {
    struct task *task = CONTAINER_OF(job, struct task, job);
    task->work.run(task->work.context);
}

static void after_task(uv_work_t *job, int status) {
    struct task *task = CONTAINER_OF(job, struct task, job);
    (void)status;
    task->ended = true;
    if (task->left)
        release_task(task);
    else
        task->work.ended(task->work.context);
}

int __wrap_task_start(struct poll_set *set, const struct task_work *work, struct task **task) {
    (void)set;
    *task = calloc(1, sizeof **task);
    if (!*task)
        abort();
    (*task)->work = *work;
    return __wrap_uv_queue_work(NULL, &(*task)->job, run_task, after_task);
}

bool __wrap_task_leave(struct task *task) {
    bool ended = task->ended;
    task->left = true;
    if (ended)
        release_task(task);
    return ended;
}

#endif
