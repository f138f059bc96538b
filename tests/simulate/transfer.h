// Simulated transfer processes: what daemon/transfer/transfer.c does between two sleeps, around the real copies and
// pools, on simulated GPUs with streams on the virtual clock. Each can be killed at any of its steps. Then the GPU may
// still be doing what it had queued until it is reaped.
#ifndef FEEDD_TESTS_SIMULATE_TRANSFER_H
#define FEEDD_TESTS_SIMULATE_TRANSFER_H

#include <setjmp.h>

#include "daemon/supervisor/processes/process.h"
#include "daemon/transfer/device_ring.h"
#include "shm/stats.h"
#include "tests/simulate/plan.h"

struct transfer {
    LIST_ENTRY(transfer) link;
    struct actor actor;
    struct process *process; // NULL: nobody knows of it
    struct stats_gpu *record;
    const char *uuid;
    struct gpu *gpu; // NULL: not open yet
    int control_fd;
    int channel_fd; // the supervisor's end
    LIST_HEAD(, device_ring) pools;
    bool runs, asleep, opens_late;
    int signal; // that it ended with
    uint64_t stands_still_ns, orphan_until_ns, nap_ns;
    struct gpu_watch watch;
    bool has_called;                        // the driver
    uint64_t in_driver_ns, driver_until_ns; // of the last call that took long
    jmp_buf dying;
};

extern LIST_HEAD(transfers, transfer) transfers;

// Which one runs now, or NULL.
extern struct transfer *transfer_running;

void transfers_begin(void);
void transfers_describe(void);

// For the supervisor: that of a process, or NULL; a new one.
struct transfer *transfer_find(const struct process *process);
void transfer_start(struct process *process, const struct process_start *start);

// The supervisor that had started it is gone: it ends soon, by itself.
void transfer_orphaned(struct transfer *transfer);

void transfer_free(struct transfer *transfer);

// One of those that run, at random, is killed or stands still; those that are not stuck show that they live.
void transfers_kill_one(void);
void transfers_stop_one(uint64_t for_ns);
void transfers_beat(void);

#endif
