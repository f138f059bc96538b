// The daemon: the real supervisor, whose events come from the scheduler in place of libuv's loop. It can die between
// two turns, taking all of its memory with it, and be started again.
#ifndef FEEDD_TESTS_SIMULATE_DAEMON_H
#define FEEDD_TESTS_SIMULATE_DAEMON_H

#include "daemon/supervisor/supervisor.h"
#include "tests/simulate/plan.h"

extern struct sim_daemon {
    struct supervisor supervisor;
    bool up;
    uint64_t started_ns;
    uint64_t disturbed_ns;    // when it last was down, stopping or standing still
    uint64_t stands_still_ns; // until then it does nothing
    struct actor events, tick, start;
} daemon_;

// Once per process: the configuration, the datasets, the statistics.
void daemon_prepare(void);

// A seed begins: the daemon is started.
void daemon_begin(void);

// It has been killed; another one is started after `pause_ns`.
void daemon_die(uint64_t pause_ns);

// It stops as it does upon SIGTERM, or drains and then stops.
void daemon_stop(void);
void daemon_drain(void);
void daemon_count_loaders(void);

// A seed is over: nobody is connected. Checks that nothing is left, and ends it.
void daemon_end(void);

uint64_t daemon_fingerprint(const char *dataset);

// What it has, in words.
void daemon_describe(void);

// It looks for events.
void daemon_wake(uint64_t delay_ns);

// Takes over its end of a connection that a client has made.
void daemon_accept(int fd, uid_t user);

#endif
