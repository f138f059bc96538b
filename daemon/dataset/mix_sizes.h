// How large the samples of a mix are in a ragged field, from the sizes in its sources and how often each of them gives
// a sample.
#ifndef FEEDD_DAEMON_DATASET_MIX_SIZES_H
#define FEEDD_DAEMON_DATASET_MIX_SIZES_H

#include "daemon/dataset/dataset.h"
#include "order/mix_schedule.h"

// Sums, as of so many samples of each source as its weight says. The size classes are those of all stored samples.
void mix_sizes_average(const struct dataset *mix, const uint32_t *weights, uint32_t field,
                       struct size_summary *sizes);

// What any `count` consecutive samples have together at most. UINT64_MAX: more than 64 bits.
uint64_t mix_sizes_most(const struct dataset *mix, const uint32_t *weights, uint32_t field, uint64_t count);

#endif
