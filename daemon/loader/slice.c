#include "daemon/loader/slice.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/log.h"

#define SLICE_NS UINT64_C(20000000) // the default is about 3 ms

// The kernel's struct sched_attr, first version. Its header conflicts with <sched.h>.
struct scheduling {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime; // of the fair policies: the slice
    uint64_t deadline;
    uint64_t period;
};

void slice_make_long(void) {
    struct scheduling scheduling = {.size = sizeof scheduling};
    // Keeps what was inherited (nice, policy).
    if (syscall(SYS_sched_getattr, 0, &scheduling, sizeof scheduling, 0) < 0)
        return;
    if (scheduling.policy != SCHED_OTHER && scheduling.policy != SCHED_BATCH)
        return;
    scheduling.runtime = SLICE_NS;
    if (syscall(SYS_sched_setattr, 0, &scheduling, 0) < 0)
        log_debug("no long time slices: %m");
}
