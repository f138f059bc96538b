#include "daemon/source/index/scan_threads.h"

#include <pthread.h>
#include <unistd.h>

#include "base/sizes.h"

void scan_in_threads(void *(*work)(void *context), void *context, uint64_t most) {
    pthread_t threads[SCAN_MAX_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t wanted = min_u64(min_u64(max_u64((uint64_t)processors, 1), SCAN_MAX_THREADS), most);
    uint32_t helpers = 0;
    while (helpers + 1 < wanted && pthread_create(&threads[helpers], NULL, work, context) == 0)
        helpers++;
    work(context);
    for (uint32_t i = 0; i < helpers; i++)
        pthread_join(threads[i], NULL);
}
