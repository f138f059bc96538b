// How large the samples of a ragged field are, for planning the room of batches: what B samples have on average, and at
// most. Kept per size class, of which there are few, so it does not depend on the number of samples.
#ifndef FEEDD_DAEMON_DATASET_SIZE_SUMMARY_H
#define FEEDD_DAEMON_DATASET_SIZE_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

// Sizes with the same power of two and the same three bits after the first are one class: they differ by 1/8 at most.
#define SIZE_CLASSES (62u * 8u)

struct size_summary {
    uint64_t samples, largest;
    double bytes, squares; // sums of the sizes and of their squares, which may be larger than 64 bits
    uint64_t counts[SIZE_CLASSES];
    uint64_t largest_of[SIZE_CLASSES];
};

// `bytes` is below 2^62.
void size_summary_add(struct size_summary *summary, uint64_t bytes);

// What any `count` samples have together at most. `repeats`: a batch may have a sample more than once. UINT64_MAX: more
// than 64 bits.
uint64_t size_summary_most(const struct size_summary *summary, uint64_t count, bool repeats);

// What most batches of `count` random samples stay below: the mean and four standard deviations, but no more than half
// the mean, so that a few samples that are much larger than the others do not count in every batch.
uint64_t size_summary_usual(const struct size_summary *summary, uint64_t count);

// Of a sample, rounded up.
uint64_t size_summary_mean(const struct size_summary *summary);

#endif
