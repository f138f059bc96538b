#include "daemon/supervisor/task.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/supervisor/thread.h"

struct task {
    struct task_work work;
    struct poll_entry event;
    int event_fd;
    pthread_mutex_t lock; // of the two below
    bool ended, left;
};

static void release(struct task *task) {
    task->work.discard(task->work.context);
    close_fd(&task->event_fd);
    pthread_mutex_destroy(&task->lock);
    free(task);
}

// An eventfd that is written once has room.
static void tell(int event_fd) {
    const uint64_t one = 1;
    while (write(event_fd, &one, sizeof one) < 0)
        if (errno != EINTR)
            abort();
}

static void *run(void *argument) {
    struct task *task = argument;
    task->work.run(task->work.context);
    pthread_mutex_lock(&task->lock);
    bool left = task->left;
    task->ended = true;
    if (!left)
        tell(task->event_fd);
    pthread_mutex_unlock(&task->lock);
    if (left)
        release(task);
    return NULL;
}

static void on_event(struct poll_entry *entry, uint32_t events) {
    struct task *task = CONTAINER_OF(entry, struct task, event);
    uint64_t count;
    (void)events;
    if (read(task->event_fd, &count, sizeof count) == sizeof count)
        task->work.ended(task->work.context);
}

int task_start(struct poll_set *set, const struct task_work *work, struct task **started) {
    struct task *task = calloc(1, sizeof *task);
    if (!task)
        return -ENOMEM;
    task->work = *work;
    pthread_mutex_init(&task->lock, NULL);
    task->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int err =
        task->event_fd < 0 ? -errno : poll_set_add(set, &task->event, task->event_fd, EPOLLIN, on_event);
    if (!err)
        err = thread_start(run, task);
    if (err == -EAGAIN)
        err = -ENOMEM; // there may be a thread later, too
    if (!err) {
        *started = task;
        return 0;
    }
    poll_set_remove(&task->event);
    close_fd(&task->event_fd);
    pthread_mutex_destroy(&task->lock);
    free(task);
    return err;
}

bool task_leave(struct task *task) {
    poll_set_remove(&task->event);
    pthread_mutex_lock(&task->lock);
    bool ended = task->ended;
    task->left = true;
    pthread_mutex_unlock(&task->lock);
    if (ended)
        release(task);
    return ended;
}
