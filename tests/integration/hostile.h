// What a process that has been taken over is made of, for hostile_loader.c and hostile_transfer.c.
#ifndef FEEDD_TESTS_INTEGRATION_HOSTILE_H
#define FEEDD_TESTS_INTEGRATION_HOSTILE_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/time.h"
#include "shm/layout.h"

static uint64_t state;

static inline uint64_t any(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545f4914f6cdd1d);
}

static inline uint64_t below(uint64_t end) {
    return end ? any() % end : 0;
}

static inline uint64_t interesting(void) {
    static const uint64_t words[] = {0,          1,           2,
                                     UINT64_MAX, UINT32_MAX,  INT32_MAX,
                                     1ull << 63, INT64_MAX,   CHUNK_MAX_SAMPLES,
                                     4096,       0x100000001, 1ull << 44,
                                     63,         64};
    return below(3) ? words[below(COUNT_OF(words))] : any() >> below(64);
}

static inline void nap(uint64_t us) {
    const struct timespec pause = {.tv_nsec = (long)(us * 1000)};
    nanosleep(&pause, NULL);
}

// Whether this process was started in that role.
static inline bool hostile_has_role(const char *role) {
    char line[4096] = "";
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t count = read(fd, line, sizeof line);
    close(fd);
    return count > 0 && memmem(line, (size_t)count, role, strlen(role));
}

// Signals are for the process's own thread.
static inline void hostile_begin(void *(*play)(void *)) {
    pthread_t thread;
    sigset_t all, before;
    state = monotonic_ns() ^ (uint64_t)getpid() << 40 ^ 1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&thread, NULL, play, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif
