// Copies from a map of a file that may be truncated under it: the SIGBUS that follows becomes an error. Faults
// anywhere else end the process as they would without this.
#ifndef FEEDD_DAEMON_LOADER_READ_FAULT_GUARD_H
#define FEEDD_DAEMON_LOADER_READ_FAULT_GUARD_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/scope.h"

// One per thread: what may fault, and where to continue. Changed only by its own thread.
struct fault_guard {
    sigjmp_buf escape;
    const volatile uint8_t *volatile start; // NULL: nothing may fault
    volatile uint64_t bytes;
};

extern _Thread_local struct fault_guard fault_guard;

// Around each copy. The fences keep the compiler from moving the copy's reads out.
static inline void fault_guard_enter(const void *start, uint64_t bytes) {
    fault_guard.bytes = bytes;
    fault_guard.start = start;
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void fault_guard_leave(void) {
    atomic_signal_fence(memory_order_seq_cst);
    fault_guard.start = NULL;
}

// Installs the handlers; each call needs one of fault_guard_close. Not to be called by several threads at once.
int fault_guard_open(void);
void fault_guard_close(void);

#endif
