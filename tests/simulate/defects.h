// Defects put in on purpose, to show that a simulation finds them: `make simulate DEFECT=NAME`. Most are of functions
// that the linker replaces.
#ifndef FEEDD_TESTS_SIMULATE_DEFECTS_H
#define FEEDD_TESTS_SIMULATE_DEFECTS_H

#include <stdbool.h>

enum defect {
    DEFECT_NONE,
    DEFECT_LYING_STORAGE,  // reads sometimes bring the bytes of another sample
    DEFECT_LOST_CHUNKS,    // chunks of a loader that died are not read again
    DEFECT_EARLY_RECOVERY, // they are read again while its reads may still write
    DEFECT_ANY_RUN,        // a client takes the same batch of another run for its own
    DEFECT_LOST_WAKE_UP,   // loaders are not woken for chunks of one that died
    DEFECT_OLD_SKIPS,      // of such a chunk, samples stay skipped that can be read
    DEFECT_COMPANY,        // consumers that return do not wait for the others
    DEFECT_FORWARD_ONLY,   // a lane does not go back for a consumer that returns late
    DEFECTS
};

// "": none. False: there is none of that name.
bool defect_choose(const char *name);
bool defect_is(enum defect defect);

#endif
