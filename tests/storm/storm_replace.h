// What takes the place of a sample that cannot be read, written from the description in order/replace.h and not from
// the code under test.
#ifndef FEEDD_TESTS_STORM_STORM_REPLACE_H
#define FEEDD_TESTS_STORM_STORM_REPLACE_H

#include "tests/storm/storm_draw.h"

#define STORM_ATTEMPTS 16

// The sample of attempt `attempt`, from 1, for what stands at a position.
static inline uint64_t storm_replacement(uint64_t seed, uint64_t samples, uint64_t epoch, uint64_t position,
                                         uint64_t attempt) {
    const uint64_t key = storm_splitmix(storm_splitmix(2) ^ (storm_splitmix(seed) + attempt));
    return (uint64_t)((unsigned __int128)storm_philox(key, position, epoch) * samples >> 64);
}

#endif
