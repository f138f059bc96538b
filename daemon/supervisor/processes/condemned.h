// Samples that end the loaders of a feed: a decoder that crashes, or never returns, would do so again and again. The
// first time, a sample is suspected, since another cause may have ended the loader; the second time, it is condemned,
// and counts as unreadable from then on (on_error).
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_CONDEMNED_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_CONDEMNED_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"

#define CONDEMNED_SUSPECTS 64u // remembered
// Deaths by SIGKILL at the same sample, and at no other in between. An operator who kills loaders does not meet one
// sample so often; the kernel does, if decoding it takes more memory than there is.
#define CONDEMNED_KILLS 5u

// All zero: none.
struct condemned {
    uint64_t suspects[CONDEMNED_SUSPECTS]; // plus 1; 0: none
    uint64_t suspected;                    // ever
    uint64_t killed_at; // the sample of the latest deaths by SIGKILL, and how many in a row
    uint32_t kills;
    uint32_t count;
    uint64_t samples[STATS_CONDEMNED];
};

enum verdict {
    SAMPLE_SUSPECTED,
    SAMPLE_CONDEMNED,
    SAMPLE_ONE_TOO_MANY, // it would be, but STATS_CONDEMNED samples already are
};

// A loader has crashed or hung at that sample, by its own account.
enum verdict condemned_hear(struct condemned *condemned, uint64_t sample);

// A loader at that sample was ended by a SIGKILL that the supervisor did not send.
enum verdict condemned_hear_killed(struct condemned *condemned, uint64_t sample);

#endif
