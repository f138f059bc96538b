// Functions of the product and of the C library that a target replaces: tests/fuzz/fuzz.mk names them for each target,
// and the linker makes every call of `name` a call of `__wrap_name`.
#ifndef FEEDD_TESTS_FUZZ_WRAPPED_H
#define FEEDD_TESTS_FUZZ_WRAPPED_H

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "base/time.h"

// The clock is the target's, so that an input always does the same.
uint64_t __wrap_monotonic_ns(void);

int __wrap_nanosleep(const struct timespec *span, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *signals);

#endif
