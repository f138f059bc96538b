#include "daemon/transfer/engine_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/time.h"

#define THREADS 2u

struct engine_queue {
    struct engine *engine;
    pthread_t threads[THREADS];
    uint32_t started;
    pthread_mutex_t lock;
    pthread_cond_t more, next;
    STAILQ_HEAD(, engine_job) jobs; // that no thread has begun
    uint64_t begun, decoded;        // jobs; the engine's next one is that with the number `decoded`
    bool ending;
    // Written by the thread that has the engine:
    _Atomic uint64_t began_ns; // when it began with its job; 0: it has none
    _Atomic bool has_worked;   // a job with images is done
};

// By one thread at a time. A job without images says nothing about the library, which does not see it.
static void decode(struct engine_queue *queue, struct engine_job *job) {
    if (!job->count)
        return;
    // Relaxed: nothing else is read with it.
    atomic_store_explicit(&queue->began_ns, monotonic_ns(), memory_order_relaxed);
    job->err = engine_decode(queue->engine, job->images, job->count, &job->error);
    atomic_store_explicit(&queue->began_ns, 0, memory_order_relaxed);
    // Release: pairs with the acquire in engine_queue_warms_up.
    atomic_store_explicit(&queue->has_worked, true, memory_order_release);
}

static void *decode_all(void *argument) {
    struct engine_queue *queue = argument;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        struct engine_job *job = STAILQ_FIRST(&queue->jobs);
        if (!job && queue->ending)
            break;
        if (!job) {
            pthread_cond_wait(&queue->more, &queue->lock);
            continue;
        }
        STAILQ_REMOVE_HEAD(&queue->jobs, link);
        const uint64_t number = queue->begun++;
        pthread_mutex_unlock(&queue->lock);
        if (job->prepare)
            job->prepare(job);
        pthread_mutex_lock(&queue->lock);
        while (queue->decoded != number)
            pthread_cond_wait(&queue->next, &queue->lock);
        pthread_mutex_unlock(&queue->lock);
        decode(queue, job);
        pthread_mutex_lock(&queue->lock);
        queue->decoded++;
        // Release: what was decoded comes before it; pairs with the acquire in images.c.
        atomic_store_explicit(&job->done, true, memory_order_release);
        pthread_cond_broadcast(&queue->next);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

int engine_queue_open(struct engine_queue **queue, struct gpu *gpu, struct error *error) {
    struct engine_queue *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "out of memory");
    int err = engine_open(&made->engine, gpu, error);
    if (err) {
        free(made);
        return err;
    }
    STAILQ_INIT(&made->jobs);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->more, NULL);
    pthread_cond_init(&made->next, NULL);
    while (!err && made->started < THREADS) {
        err = pthread_create(&made->threads[made->started], NULL, decode_all, made);
        made->started += !err;
    }
    if (err) {
        engine_queue_close(made);
        return error_set(error, -ENOMEM, "no thread for the engine: %s", strerror(err));
    }
    *queue = made;
    return 0;
}

void engine_queue_close(struct engine_queue *queue) {
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    queue->ending = true;
    pthread_cond_broadcast(&queue->more);
    pthread_mutex_unlock(&queue->lock);
    while (queue->started > 0)
        pthread_join(queue->threads[--queue->started], NULL);
    pthread_cond_destroy(&queue->more);
    pthread_cond_destroy(&queue->next);
    pthread_mutex_destroy(&queue->lock);
    engine_close(queue->engine);
    free(queue);
}

void engine_queue_submit(struct engine_queue *queue, struct engine_job *job) {
    job->err = 0;
    atomic_store_explicit(&job->done, false, memory_order_relaxed);
    pthread_mutex_lock(&queue->lock);
    STAILQ_INSERT_TAIL(&queue->jobs, job, link);
    pthread_cond_signal(&queue->more);
    pthread_mutex_unlock(&queue->lock);
}

uint64_t engine_queue_moved_ns(const struct engine_queue *queue, uint64_t now) {
    const uint64_t began = queue ? atomic_load_explicit(&queue->began_ns, memory_order_relaxed) : 0;
    return began && began < now ? began : now;
}

// Acquire: the job has ended for those who then ask when the engine last moved.
bool engine_queue_warms_up(const struct engine_queue *queue) {
    return queue && !atomic_load_explicit(&queue->has_worked, memory_order_acquire) &&
           atomic_load_explicit(&queue->began_ns, memory_order_relaxed);
}
