// Shared by the programs that measure limits: options, a shuffled order, and P processes that start together, run for
// a while and stop. It contains no feedd code, so that a limit never measures feedd against itself.
#ifndef FEEDD_BENCH_BENCH_H
#define FEEDD_BENCH_BENCH_H

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/scope.h"

_Noreturn static inline void bench_die(const char *what, int error) {
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
            strerror(error < 0 ? -error : error));
    exit(1);
}

static inline uint64_t bench_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double bench_cpu_seconds(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static inline uint64_t bench_number(const char *option, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-') {
        fprintf(stderr, "%s: --%s takes a number, not '%s'\n", program_invocation_short_name, option, text);
        exit(2);
    }
    return value;
}

// One step of splitmix64: good enough to shuffle and to fill files, and the same on every machine.
static inline uint64_t bench_mix(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
