#include "tests/simulate/threads.h"

#include "tests/simulate/daemon.h"
#include "tests/world/tasks.h"

#define JOBS_MOST 32u

static struct job {
    struct actor actor;
    uv_work_t *work; // NULL: unused
    uv_work_cb run;
    uv_after_work_cb after;
    bool ran;
} jobs[JOBS_MOST];

void threads_begin(void) {
    for (uint32_t i = 0; i < JOBS_MOST; i++)
        jobs[i] = (struct job){0};
}

bool threads_idle(void) {
    for (uint32_t i = 0; i < JOBS_MOST; i++)
        if (jobs[i].work)
            return false;
    return true;
}

static void forget(struct job *job) {
    actor_remove(&job->actor);
    job->work = NULL;
}

// Tasks end first, so that whoever leaves them frees what they have.
static void end_task(const struct job *job) {
    struct task *task = CONTAINER_OF(job->work, struct task, job);
    if (!job->ran)
        job->run(job->work);
    task->ended = true;
    if (task->left)
        release_task(task);
}

void threads_die(void) {
    for (uint32_t i = 0; i < JOBS_MOST; i++) {
        if (!jobs[i].work)
            continue;
        if (jobs[i].run == run_task)
            end_task(&jobs[i]);
        forget(&jobs[i]);
    }
}

static void act(struct actor *actor) {
    struct job *job = CONTAINER_OF(actor, struct job, actor);
    uv_work_t *work = job->work;
    if (!job->ran) {
        job->run(work);
        job->ran = true;
        actor_wake(actor, sim_below(1 + plan.thread_us / 4 * NS_PER_US));
        return;
    }
    if (sim.now_ns < daemon_.stands_still_ns) {
        actor_wake(actor, daemon_.stands_still_ns - sim.now_ns);
        return;
    }
    forget(job);
    job->after(work, 0);
    daemon_wake(0);
}

int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb after) {
    struct job *job = jobs;
    (void)loop;
    while (job->work)
        SIM_MUST(++job < jobs + JOBS_MOST);
    *job = (struct job){.work = work, .run = run, .after = after};
    actor_add(&job->actor, "thread", act, sim_below(1 + plan.thread_us * NS_PER_US));
    return 0;
}
