// What the machine is short of for a moment (error_is_lack): whoever can wait tries again for two seconds, with pauses,
// before that counts as a failure.
#ifndef FEEDD_BASE_LACK_H
#define FEEDD_BASE_LACK_H

#include <stdbool.h>

#include "base/time.h"

#define LACK_PAUSE_NS (50 * NS_PER_MS)
#define LACK_MOST_NS  (2 * NS_PER_S)
#define LACK_OVER_NS  (1 * NS_PER_S) // without a failure: the lack is over

struct lack {
    uint64_t since_ns; // when the present lack began
    uint64_t seen_ns;  // when something last failed for it
};

// Records that an attempt, which began at `began_ns`, has failed for a lack. True: the lack has lasted for two seconds.
static inline bool lack_lasts(struct lack *lack, uint64_t began_ns, uint64_t now_ns) {
    // Attempts may take longer than that, and are no reason to believe that it was over in between.
    if (began_ns > lack->seen_ns + LACK_OVER_NS)
        lack->since_ns = now_ns;
    lack->seen_ns = now_ns;
    return now_ns >= lack->since_ns + LACK_MOST_NS;
}

#endif
