#include "bench/gpu/busy.h"

#include <pthread.h>
#include <stdatomic.h>

#include "bench/bench.h"

#define KERNEL_SECONDS 1.5e-3
#define TRIAL_WAVES    50u
#define QUEUED         4u // kernels
#define KERNELS_MOST   100000u

struct busy {
    const struct work *work;
    work_stream stream;
    work_event events[QUEUED];
    uint32_t waves;
    _Atomic bool measuring, stopping;
    pthread_t thread;
    uint64_t count;
    double seconds[KERNELS_MOST];
};

static void *compute(void *argument) {
    struct busy *busy = argument;
    const struct work *work = busy->work;
    work->join();
    for (uint64_t i = 0; !atomic_load(&busy->stopping); i++) {
        // The oldest but one has ended, and the time between the ends of the two is known, before the oldest's event
        // is used again.
        if (i >= QUEUED) {
            work_event oldest = busy->events[i % QUEUED], next = busy->events[(i + 1) % QUEUED];
            work->wait(next);
            if (atomic_load(&busy->measuring) && busy->count < KERNELS_MOST)
                busy->seconds[busy->count++] = work->seconds(oldest, next);
        }
        work->burn(busy->waves, busy->stream);
        work->record(busy->events[i % QUEUED], busy->stream);
    }
    return NULL;
}

static uint32_t find_waves(const struct busy *busy) {
    const struct work *work = busy->work;
    double seconds = 0;
    for (int i = 0; i < 8; i++) { // for the first ones the GPU's clock is still low
        work->record(busy->events[0], busy->stream);
        work->burn(TRIAL_WAVES, busy->stream);
        work->record(busy->events[1], busy->stream);
        work->wait(busy->events[1]);
        seconds = work->seconds(busy->events[0], busy->events[1]);
    }
    double waves = KERNEL_SECONDS / (seconds > 0 ? seconds : 1) * TRIAL_WAVES;
    return waves < 1 ? 1 : waves > 1e5 ? 100000 : (uint32_t)waves;
}

struct busy *busy_start(const struct work *work, uint32_t waves) {
    struct busy *busy = calloc(1, sizeof *busy);
    if (!busy)
        bench_die("memory", ENOMEM);
    busy->work = work;
    busy->stream = work->stream(false);
    for (uint32_t i = 0; i < QUEUED; i++)
        busy->events[i] = work->event(false);
    busy->waves = waves ? waves : find_waves(busy);
    int err = pthread_create(&busy->thread, NULL, compute, busy);
    if (err)
        bench_die("a thread", err);
    return busy;
}

void busy_measure(struct busy *busy, bool counts) {
    atomic_store(&busy->measuring, counts);
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

struct busy_result busy_stop(struct busy *busy) {
    double sum = 0;
    atomic_store(&busy->stopping, true);
    pthread_join(busy->thread, NULL);
    struct busy_result result = {.waves = busy->waves, .kernels = busy->count};
    qsort(busy->seconds, busy->count, sizeof busy->seconds[0], by_size);
    for (uint64_t i = 0; i < busy->count; i++)
        sum += busy->seconds[i];
    if (busy->count) {
        result.median_s = busy->seconds[busy->count / 2];
        result.mean_s = sum / (double)busy->count;
    }
    free(busy); // its stream and events are freed with the process
    return result;
}
