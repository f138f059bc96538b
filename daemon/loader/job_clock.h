// What a loader spends its time on, and how long its jobs take, in the statistics. Its loop looks at the clock once per
// round anyway; that look ends what the loader has done since the one before. So a round that only copies costs no
// further look, and a sample none.
#ifndef FEEDD_DAEMON_LOADER_JOB_CLOCK_H
#define FEEDD_DAEMON_LOADER_JOB_CLOCK_H

#include "base/time.h"
#include "shm/stats.h"
#include "shm/trace.h"

#define JOB_CLOCK_ENDED 32u

// Times at which jobs were claimed that have come to some end since the last look, which the next look dates.
struct job_clock_ends {
    uint64_t claimed_ns[JOB_CLOCK_ENDED];
    uint32_t count;
};

struct job_clock {
    struct stats_loader *stats;
    struct trace_writer *trace;
    uint64_t looked_ns;
    uint64_t room_ns; // it has had nothing to fill since then; 0: it has
    struct job_clock_ends read, filled;
};

void job_clock_start(struct job_clock *clock, struct stats_loader *stats, struct trace_writer *trace);

// Looks at the clock: what it has shown since the last look was spent on `counter`. Returns the time.
uint64_t job_clock_spend(struct job_clock *clock, enum loader_counter counter);

// The same, if the caller has just looked.
void job_clock_spend_until(struct job_clock *clock, enum loader_counter counter, uint64_t now);

// A job that was claimed then has all of its reads back, or is complete.
void job_clock_read(struct job_clock *clock, uint64_t claimed_ns);
void job_clock_filled(struct job_clock *clock, uint64_t claimed_ns);

// It finds nothing to fill, or something again.
void job_clock_waits(struct job_clock *clock);
void job_clock_works(struct job_clock *clock);

// The processor time of this process so far.
void job_clock_count_cpu(struct job_clock *clock);

#endif
