#include "daemon/supervisor/thread_pool.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#define THREADS 4u // libuv's default

static void *wait_for_others(void *argument) {
    while (sem_wait(argument) < 0)
        continue; // interrupted
    return NULL;
}

// Whether so many threads can exist at the same time.
static int try_threads(void) {
    pthread_t threads[THREADS];
    sem_t tried;
    uint32_t made = 0;
    int err = 0;
    sem_init(&tried, 0, 0);
    while (made < THREADS && !err) {
        err = -pthread_create(&threads[made], NULL, wait_for_others, &tried);
        made += err == 0;
    }
    for (uint32_t i = 0; i < made; i++)
        sem_post(&tried);
    for (uint32_t i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    sem_destroy(&tried);
    return err;
}

static void no_work(uv_work_t *work) {
    (void)work;
}
static void after_no_work(uv_work_t *work, int status) {
    (void)work;
    (void)status;
}

// libuv creates them on first use, and aborts without a word if it cannot.
int thread_pool_start(uv_loop_t *loop, struct error *error) {
    static uv_work_t work;
    int err = try_threads();
    if (err)
        return error_set(
            error, err,
            "cannot start %u threads: %s; the limit on tasks (ulimit -u, or TasksMax= in the systemd"
            " unit) or on memory has been reached",
            THREADS, strerror(-err));
    uv_queue_work(loop, &work, no_work, after_no_work);
    return 0;
}
