#include "daemon/source/index/crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/sizes.h"

#define MAX_THREADS 8u

struct crew {
    int (*work)(void *context, uint32_t index);
    void *context;
    uint32_t count;
    _Atomic uint32_t next;
    _Atomic bool failed;
};

static void *run(void *argument) {
    struct crew *crew = argument;
    uint32_t index;
    while (!atomic_load_explicit(&crew->failed, memory_order_relaxed) &&
           (index = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed)) < crew->count)
        if (crew->work(crew->context, index))
            atomic_store_explicit(&crew->failed, true, memory_order_relaxed);
    return NULL;
}

void crew_work(int (*work)(void *context, uint32_t index), void *context, uint32_t count) {
    struct crew crew = {.work = work, .context = context, .count = count};
    pthread_t threads[MAX_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t wanted = min_u64(min_u64(max_u64((uint64_t)processors, 1), MAX_THREADS), count);
    uint32_t helpers = 0;
    // This thread works too, and alone if no other can be started.
    while (helpers + 1 < wanted && pthread_create(&threads[helpers], NULL, run, &crew) == 0)
        helpers++;
    run(&crew);
    for (uint32_t i = 0; i < helpers; i++)
        pthread_join(threads[i], NULL);
}
