// A run of a mixture: which weights it has, and where it began with them. With the sources, their order and the seed,
// this says what stands at each of its positions.
#ifndef FEEDD_ORDER_MIX_RUN_H
#define FEEDD_ORDER_MIX_RUN_H

#include <stdbool.h>

#include "order/mix.h"

// Plain data, equal if its bytes are. Zeros: not a mixture.
struct mix_run {
    uint32_t version; // enum mix_version
    uint32_t sources;
    uint32_t weights[MIX_MAX_SOURCES]; // without a common factor; 0 beyond the sources
    struct mix_base base;              // `drawn` is 0 beyond the sources
};

// From position 0. `weights` are without a common factor.
void mix_run_begin(struct mix_run *run, const uint32_t *weights, uint32_t sources);

// Whether there can be such a run, of a mixture. -EINVAL, with a sentence, if not.
int mix_run_check(const struct mix_run *run, struct error *error);

bool mix_run_same(const struct mix_run *left, const struct mix_run *right);

// Gives a run other weights from `position` on; every source continues from its own count. With the weights that it
// has, it stays as it is. `run` has been checked. Takes as long as mix_open and mix_base_at. -ERANGE, with a sentence,
// for a position before its start, -ENOMEM; `run` is untouched then.
int mix_run_change(struct mix_run *run, uint64_t position, const uint32_t *weights, uint32_t sources,
                   struct error *error);

// Of a position of an epoch: its position in the run. False: it is beyond 2^63, which no run reaches.
bool mix_run_position(uint64_t epoch_samples, uint64_t epoch, uint64_t position, uint64_t *in_run);

#endif
