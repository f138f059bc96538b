// What must be delivered, computed a second time from the descriptions of the order and of its division, not from
// order/. And the bytes of samples, which only depend on their numbers.
#ifndef FEEDD_TESTS_SIMULATE_REFERENCE_H
#define FEEDD_TESTS_SIMULATE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

enum view_kind {
    VIEW_NONE,
    VIEW_RANGE,
    VIEW_SPLIT,
    VIEW_LIST,
    VIEW_DRAWS,
};

// Which of the `of` samples that are stored a run delivers: `count` of them in an epoch. A part begins at `first`.
// `seed` is that of a split; else another one makes another list, or other weights.
struct reference_view {
    enum view_kind kind;
    uint64_t of, first, count, seed;
    uint64_t listed;       // draws are from so many numbers of the view's list alone; 0: from all samples
    uint64_t window;       // groups that are shuffled together; 0: there are none
    const uint8_t *groups; // samples of each group of what is stored, then 0
};

// A consumer's share of the order: everything that decides which samples it gets when.
struct reference_run {
    uint64_t samples, seed; // samples of an epoch
    uint64_t batch_size, world_size, rank;
    bool shuffle, drop_last;
    bool by_position; // samples have the numbers of their positions, whatever stands there
    struct reference_view view;
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

// The sample at a position of an epoch, as the view numbers it.
uint64_t reference_sample(const struct reference_run *run, uint64_t epoch, uint64_t position);

// The stored sample that has this number in an epoch of the view.
uint64_t reference_stored(const struct reference_run *run, uint64_t epoch, uint64_t number);

// The stored sample that takes the place of the one at a position, in the attempt with this number, from 1.
uint64_t reference_replacement(const struct reference_run *run, uint64_t epoch, uint64_t position,
                               uint32_t attempt);

// Number i of a list, and the weight of a sample, which counts as often as it is listed.
uint64_t reference_listed(const struct reference_view *view, uint64_t i);
uint64_t reference_weight(const struct reference_view *view, uint64_t sample);

// The word that a sample begins with. Its complement follows; simulated samples consist of nothing else.
uint64_t reference_word(uint64_t sample);

#endif
