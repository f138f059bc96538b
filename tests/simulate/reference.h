// What must be delivered, computed a second time from the descriptions of the order and of its division, not from
// order/. And the bytes of samples, which only depend on their numbers.
#ifndef FEEDD_TESTS_SIMULATE_REFERENCE_H
#define FEEDD_TESTS_SIMULATE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

// A consumer's share of the order: everything that decides which samples it gets when.
struct reference_run {
    uint64_t samples, seed;
    uint64_t batch_size, world_size, rank;
    bool shuffle, drop_last;
};

// Between two global batches.
struct reference_place {
    uint64_t epoch, consumed;
};

struct reference_batch {
    uint64_t epoch, index, first, count; // positions first..first+count-1
    bool last_of_epoch;
    struct reference_place next;
};

// The rank's batch that begins there.
struct reference_batch reference_batch_at(const struct reference_run *run, struct reference_place place);

// The sample at a position of an epoch.
uint64_t reference_sample(const struct reference_run *run, uint64_t epoch, uint64_t position);

// The word that a sample begins with. Its complement follows; simulated samples consist of nothing else.
uint64_t reference_word(uint64_t sample);

#endif
