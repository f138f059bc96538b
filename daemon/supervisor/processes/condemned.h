// Samples that end the loaders of a feed: a decoder that crashes, or never returns, would do so again and again. The
// first time, a sample is suspected, since another cause may have ended the loader; the second time, it is condemned,
// and counts as unreadable from then on (on_error).
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_CONDEMNED_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_CONDEMNED_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"

#define CONDEMNED_SUSPECTS 64u // remembered

// All zero: none.
struct condemned {
    uint64_t suspects[CONDEMNED_SUSPECTS]; // plus 1; 0: none
    uint64_t suspected;                    // ever
    uint64_t samples[STATS_CONDEMNED];
    uint32_t count;
};

enum verdict {
    SAMPLE_SUSPECTED,
    SAMPLE_CONDEMNED,
    SAMPLE_ONE_TOO_MANY, // it would be, but STATS_CONDEMNED samples already are
};

// A loader has ended at that sample, by its own account.
enum verdict condemned_hear(struct condemned *condemned, uint64_t sample);

#endif
