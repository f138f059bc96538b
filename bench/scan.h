// Entries of a folder, which threads take one after the other.
#ifndef FEEDD_BENCH_SCAN_H
#define FEEDD_BENCH_SCAN_H

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/scope.h"
#include "bench/bench.h"

#define SCAN_MOST_ENTRIES 100000u
#define SCAN_MOST_THREADS 64u

struct scan {
    int folder;
    char *names[SCAN_MOST_ENTRIES];
    uint64_t count;
    _Atomic uint64_t next;
};

static inline bool scan_name_ends(const struct dirent *entry, const char *ending) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ending) == 0;
}

// Finds those that `wanted` accepts.
static inline void scan_find(struct scan *scan, const char *path, bool (*wanted)(const struct dirent *)) {
    DIR *directory = opendir(path);
    const struct dirent *entry;
    scan->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!directory || scan->folder < 0)
        bench_die(path, errno);
    while ((entry = readdir(directory))) {
        if (!wanted(entry))
            continue;
        if (scan->count == SCAN_MOST_ENTRIES)
            bench_die(path, EFBIG);
        scan->names[scan->count] = strdup(entry->d_name);
        if (!scan->names[scan->count++])
            bench_die(path, ENOMEM);
    }
    closedir(directory);
}

// The next name that no thread has taken; NULL: all have been.
static inline const char *scan_take(struct scan *scan) {
    uint64_t i = atomic_fetch_add(&scan->next, 1);
    return i < scan->count ? scan->names[i] : NULL;
}

static inline void scan_in_threads(uint64_t count, void *(*work)(void *unused)) {
    pthread_t threads[SCAN_MOST_THREADS];
    if (count < 1 || count > SCAN_MOST_THREADS)
        bench_die("threads", EINVAL);
    for (uint64_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            bench_die("threads", EAGAIN);
    for (uint64_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

#endif
