// The order of an epoch with shuffle windows, written from the description in ../unit/window_reference.py and not from
// the code under test; storm.py compares it with that reference before it begins.
#ifndef FEEDD_TESTS_STORM_STORM_WINDOW_H
#define FEEDD_TESTS_STORM_STORM_WINDOW_H

#include <string.h>

#include "tests/storm/storm_order.h"

#define STORM_GROUPS 256

// As blocks.py writes it: the groups of a dataset or view, one after the other.
struct storm_groups {
    uint64_t window, count;
    uint64_t samples[]; // of each group
};

struct storm_windows {
    const struct storm_groups *groups;
    uint64_t seed, epoch; // of what follows
    bool known;
    uint64_t first[STORM_GROUPS], visited[STORM_GROUPS]; // of each group, and the group of each visit
    struct storm_order inside[STORM_GROUPS];             // of each window
};

static inline uint64_t storm_windows_samples(const struct storm_groups *groups) {
    uint64_t samples = 0;
    for (uint64_t i = 0; i < groups->count; i++)
        samples += groups->samples[i];
    return samples;
}

static inline void storm_windows_enter(struct storm_windows *windows, uint64_t seed, uint64_t epoch) {
    const struct storm_groups *groups = windows->groups;
    struct storm_order order = {.samples = groups->count, .seed = seed, .shuffle = true};
    if (windows->known && windows->seed == seed && windows->epoch == epoch)
        return;
    memset(windows->inside, 0, sizeof windows->inside);
    for (uint64_t i = 0; i < groups->count; i++) {
        const uint64_t number = i / groups->window;
        windows->first[i] = i ? windows->first[i - 1] + groups->samples[i - 1] : 0;
        windows->visited[i] = storm_order_sample(&order, epoch, i);
        windows->inside[number].shuffle = true;
        windows->inside[number].seed = storm_splitmix(storm_splitmix(seed) ^ number);
        windows->inside[number].samples += groups->samples[windows->visited[i]];
    }
    windows->seed = seed;
    windows->epoch = epoch;
    windows->known = true;
}

static inline uint64_t storm_window_sample(struct storm_windows *windows, uint64_t seed, uint64_t epoch,
                                           uint64_t position) {
    uint64_t number = 0;
    storm_windows_enter(windows, seed, epoch);
    while (position >= windows->inside[number].samples)
        position -= windows->inside[number++].samples;
    uint64_t place = storm_order_sample(&windows->inside[number], epoch, position);
    uint64_t visit = number * windows->groups->window;
    while (place >= windows->groups->samples[windows->visited[visit]])
        place -= windows->groups->samples[windows->visited[visit++]];
    return windows->first[windows->visited[visit]] + place;
}

#endif
