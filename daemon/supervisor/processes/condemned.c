#include "daemon/supervisor/processes/condemned.h"

static bool is_suspect(const struct condemned *condemned, uint64_t sample) {
    for (uint32_t i = 0; i < CONDEMNED_SUSPECTS; i++)
        if (condemned->suspects[i] == sample + 1)
            return true;
    return false;
}

static enum verdict condemn(struct condemned *condemned, uint64_t sample) {
    // A third loader may already have been working on it.
    for (uint32_t i = 0; i < condemned->count; i++)
        if (condemned->samples[i] == sample)
            return SAMPLE_SUSPECTED;
    if (condemned->count == STATS_CONDEMNED)
        return SAMPLE_ONE_TOO_MANY;
    condemned->samples[condemned->count++] = sample;
    return SAMPLE_CONDEMNED;
}

enum verdict condemned_hear(struct condemned *condemned, uint64_t sample) {
    if (is_suspect(condemned, sample))
        return condemn(condemned, sample);
    condemned->suspects[condemned->suspected++ % CONDEMNED_SUSPECTS] = sample + 1;
    return SAMPLE_SUSPECTED;
}

enum verdict condemned_hear_killed(struct condemned *condemned, uint64_t sample) {
    condemned->kills = condemned->killed_at == sample ? condemned->kills + 1 : 1;
    condemned->killed_at = sample;
    return condemned->kills < CONDEMNED_KILLS ? SAMPLE_SUSPECTED : condemn(condemned, sample);
}
