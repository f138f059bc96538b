#include "client/lib/waiting.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

uint64_t deadline_after_ms(int64_t timeout_ms) {
    if (timeout_ms <= 0)
        return timeout_ms < 0 ? DEADLINE_NONE : DEADLINE_NOW;
    return monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

bool interrupt_wanted(struct interrupt interrupt) {
    return interrupt.wanted && interrupt.wanted(interrupt.context);
}

int interruptible_sleep(uint64_t when, struct interrupt interrupt) {
    struct timespec until = timespec_of_ns(when);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
    return interrupt_wanted(interrupt) ? -EINTR : 0;
}
