// Work in its own thread, for what may wait for storage indefinitely. libuv has few threads, and joins them when the
// process exits; this one is left behind if it does not end.
#ifndef FEEDD_DAEMON_SUPERVISOR_TASK_H
#define FEEDD_DAEMON_SUPERVISOR_TASK_H

#include "daemon/supervisor/poll_set.h"

struct task;

struct task_work {
    void (*run)(void *context);   // in the thread
    void (*ended)(void *context); // on the loop, after that; it must not call task_leave
    void (*discard)(
        void *context); // frees the context: on the loop, or in the thread if the loop left before it ended
    void *context;
};

// On failure, the context is the caller's, as before.
int task_start(struct poll_set *set, const struct task_work *work, struct task **task);

// Whether the context is discarded now (true), or when the thread ends. The loop must not touch it any more.
bool task_leave(struct task *task);

#endif
