// Faults that happen to somebody at some time, until the calm begins.
#ifndef FEEDD_TESTS_SIMULATE_CHAOS_H
#define FEEDD_TESTS_SIMULATE_CHAOS_H

#include <stdint.h>

enum chaos_kind {
    CHAOS_KILL_LOADER,
    CHAOS_STOP_LOADER,
    CHAOS_KILL_CLIENT,
    CHAOS_STOP_CLIENT,
    CHAOS_KILL_DAEMON,
    CHAOS_END_DAEMON, // as upon SIGTERM
    CHAOS_DRAIN,
    CHAOS_STOP_DAEMON, // it does nothing for a while
    CHAOS_RELOAD,
    CHAOS_SUSPEND,     // the machine does
    CHAOS_RETURN_LATE, // the daemon is killed, and a client does not notice for a while
    CHAOS_KILL_TRANSFER,
    CHAOS_STOP_TRANSFER,
    CHAOS_COUNT_LOADERS, // a feed is given another number of loaders
    CHAOS_KINDS
};

void chaos_begin(void);

#endif
