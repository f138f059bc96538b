// Which sample takes the place of one that cannot be read (on_error = replace). A pure function of seed, epoch,
// position and attempt, the same on every machine, for any number of loaders and in every version:
// tests/unit/replace_vectors.h pins it, and a change is a new version beside this one.
//
// Version 1. The sample at a position of an epoch cannot be read. Attempt a, counted from 1, takes the random number u
// that is the first 64 bits, the first word lowest, of random_at (order/philox.h) for the epoch and the position, with
// the key of RANDOM_REPLACE_1 and the seed splitmix64(seed) + a (order/splitmix.h). Of n samples of the view or
// dataset, number floor(u * n / 2^64) takes the place. In a view that draws by weight that is the number of a draw of
// the same epoch, so that samples with large weights take places more often, too. Attempts are made from 1 on until a
// sample can be read; the same sample may come again. In a mix, the epoch, the position and n are those of the sample's
// source, so each source replaces its samples as it would by itself, with the seed of the run.
#ifndef FEEDD_ORDER_REPLACE_H
#define FEEDD_ORDER_REPLACE_H

#include <stdint.h>

#define REPLACE_ATTEMPTS 16u // then the feed fails

// The number in the view, below `samples`, which is at least 1.
uint64_t replace_number(uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt, uint64_t samples);

#endif
