#include "gpu/gpu_host_stream.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/error.h"

#define POLL_LEAST_NS 10000L
#define POLL_MOST_NS  200000L

struct host_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    STAILQ_HEAD(host_queue, host_work) queue; // the first entry is in progress
    bool ending;
};

struct host_work *host_work_new(enum host_work_kind kind, uint32_t word_count) {
    struct host_work *work = calloc(1, sizeof *work + word_count * sizeof(struct gpu_word));
    if (work) {
        work->kind = kind;
        work->word_count = word_count;
    }
    return work;
}

static void sleep_ns(uint64_t nanoseconds) {
    const struct timespec span = {.tv_sec = (time_t)(nanoseconds / 1000000000u),
                                  .tv_nsec = (long)(nanoseconds % 1000000000u)};
    nanosleep(&span, NULL);
}

static bool is_ending(struct host_stream *stream) {
    if (!stream)
        return false;
    pthread_mutex_lock(&stream->lock);
    bool ending = stream->ending;
    pthread_mutex_unlock(&stream->lock);
    return ending;
}

// False if the stream ends before the word arrives. The comparison is a signed difference, as on the GPU.
static bool wait_for_word(struct host_stream *stream, const struct gpu_word *word) {
    const uint64_t *address = (const uint64_t *)(uintptr_t)word->address;
    long nap = POLL_LEAST_NS;
    for (;;) {
        bool ending = is_ending(stream); // read before the word, so that a word written before the end counts
        if ((int64_t)(__atomic_load_n(address, __ATOMIC_ACQUIRE) - word->value) >= 0)
            return true;
        if (ending)
            return false;
        sleep_ns((uint64_t)nap);
        nap = nap * 2 < POLL_MOST_NS ? nap * 2 : POLL_MOST_NS;
    }
}

// False if the work will never be done. `stream` is NULL for the default stream.
static bool do_work(struct host_stream *stream, const struct host_work *work) {
    switch (work->kind) {
    case HOST_COPY:
        if (work->delay_us)
            sleep_ns(work->delay_us * 1000);
        memcpy(work->to, work->from, work->bytes);
        break;
    case HOST_STALL:
        while (!is_ending(stream))
            sleep_ns(POLL_MOST_NS);
        return false;
    case HOST_WRITE:
        for (uint32_t i = 0; i < work->word_count; i++)
            __atomic_store_n((uint64_t *)(uintptr_t)work->words[i].address, work->words[i].value,
                             __ATOMIC_RELEASE);
        break;
    case HOST_WAIT:
        return wait_for_word(stream, &work->words[0]);
    case HOST_CALL:
        work->call(work->argument);
        break;
    }
    return true;
}

static void *stream_main(void *argument) {
    struct host_stream *stream = argument;
    bool done = true;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        struct host_work *work = STAILQ_FIRST(&stream->queue);
        if (!work) {
            pthread_cond_broadcast(&stream->idle);
            if (stream->ending)
                break;
            pthread_cond_wait(&stream->more, &stream->lock);
            continue;
        }
        pthread_mutex_unlock(&stream->lock);
        done = done && do_work(stream, work);
        pthread_mutex_lock(&stream->lock);
        STAILQ_REMOVE_HEAD(&stream->queue, link);
        free(work);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

int host_stream_start(struct host_stream **stream, struct error *error) {
    struct host_stream *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "no memory for a stream");
    STAILQ_INIT(&made->queue);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->more, NULL);
    pthread_cond_init(&made->idle, NULL);
    // Signals belong to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&made->thread, NULL, stream_main, made);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) {
        free(made);
        return error_set(error, -ENOMEM, "no thread for a stream: %s", strerror(err));
    }
    *stream = made;
    return 0;
}

void host_stream_queue(struct host_stream *stream, struct host_work *work) {
    if (!stream) {
        do_work(NULL, work);
        free(work);
        return;
    }
    pthread_mutex_lock(&stream->lock);
    STAILQ_INSERT_TAIL(&stream->queue, work, link);
    pthread_cond_signal(&stream->more);
    pthread_mutex_unlock(&stream->lock);
}

void host_stream_drain(struct host_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    while (!STAILQ_EMPTY(&stream->queue))
        pthread_cond_wait(&stream->idle, &stream->lock);
    pthread_mutex_unlock(&stream->lock);
}

void host_stream_end(struct host_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    stream->ending = true;
    pthread_cond_signal(&stream->more);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->idle);
    pthread_cond_destroy(&stream->more);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}
