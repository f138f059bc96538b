// Deadlines, and waits that the caller can interrupt. Deadlines are monotonic_ns() values.
#ifndef FEEDD_CLIENT_LIB_WAITING_H
#define FEEDD_CLIENT_LIB_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define DEADLINE_NONE UINT64_MAX // wait indefinitely
#define DEADLINE_NOW  0u         // do not wait

#define INTERRUPT_EVERY_NS (NS_PER_S / 10) // how often a wait asks whether to end

// A wait calls it at least every INTERRUPT_EVERY_NS; true ends the wait with -EINTR.
struct interrupt {
    bool (*wanted)(void *context); // NULL: never
    void *context;
};

uint64_t deadline_after_ms(int64_t timeout_ms); // negative: DEADLINE_NONE, 0: DEADLINE_NOW

bool interrupt_wanted(struct interrupt interrupt);

// Sleeps until `when`, which is at most INTERRUPT_EVERY_NS away, also if signals arrive. 0, or -EINTR as `interrupt`
// says.
int interruptible_sleep(uint64_t when, struct interrupt interrupt);

#endif
