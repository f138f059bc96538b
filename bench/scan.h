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

// What main() does with FOLDER and THREADS: all entries that `wanted` accepts. Returns the seconds it takes.
static inline double scan_run(int argc, char **argv, struct scan *scan, bool (*wanted)(const struct dirent *),
                              void *(*work)(void *unused)) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s FOLDER THREADS\n", argv[0]);
        exit(2);
    }
    uint64_t threads = bench_number("THREADS", argv[2]), start = bench_ns();
    scan_find(scan, argv[1], wanted);
    scan_in_threads(threads, work);
    return (double)(bench_ns() - start) / 1e9;
}

#endif
