// The one clock of every interval, deadline and heartbeat in feedd.
#ifndef FEEDD_BASE_TIME_H
#define FEEDD_BASE_TIME_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

// CLOCK_MONOTONIC in nanoseconds.
uint64_t monotonic_ns(void);

static inline struct timespec timespec_of_ns(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

#endif
