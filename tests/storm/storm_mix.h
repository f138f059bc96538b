// The samples of a mix, from the schedule that ../unit/mix_reference.py makes and not from the code under test.
#ifndef FEEDD_TESTS_STORM_STORM_MIX_H
#define FEEDD_TESTS_STORM_STORM_MIX_H

#include "tests/storm/storm_order.h"

#define STORM_MIX_SOURCES 8

// As files.py writes it. The truth holds the samples of one source after those of another.
struct storm_mix {
    uint64_t total, sources;
    struct {
        uint64_t weight, samples;
    } source[STORM_MIX_SOURCES];
    uint8_t period[]; // the source of each of `total` slots
};

static inline uint64_t storm_mix_stored(const struct storm_mix *mix) {
    uint64_t stored = 0;
    for (uint64_t i = 0; i < mix->sources; i++)
        stored += mix->source[i].samples;
    return stored;
}

// The place in the truth of what stands at a position of the run.
static inline uint64_t storm_mix_sample(const struct storm_mix *mix, uint64_t seed, bool shuffle,
                                        uint64_t position) {
    const uint64_t slot = position % mix->total, source = mix->period[slot];
    uint64_t number = position / mix->total * mix->source[source].weight, first = 0;
    for (uint64_t i = 0; i < slot; i++)
        number += mix->period[i] == source;
    for (uint64_t i = 0; i < source; i++)
        first += mix->source[i].samples;
    const uint64_t samples = mix->source[source].samples;
    struct storm_order order = {.samples = samples, .seed = seed, .shuffle = shuffle};
    return first + storm_order_sample(&order, number / samples, number % samples);
}

#endif
