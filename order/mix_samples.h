// The samples of a mixture: order/mix.h says which source stands at a position and how many samples that source gave
// before; this file says which sample that is. Every source has its own epochs and gives its samples in the order in
// which it would deliver them by itself, with the seed of the run.
#ifndef FEEDD_ORDER_MIX_SAMPLES_H
#define FEEDD_ORDER_MIX_SAMPLES_H

#include "order/mix_run.h"
#include "order/sampler.h"

struct mix_source {
    struct sampler *sampler; // how it would deliver its samples by itself, with the seed of the run
    uint64_t first;          // is added to the numbers of its samples, which so differ between sources
};

struct mix_samples; // for one thread at a time

// `sources`, of which there are run->sources, is copied, but not the samplers, which are for the same thread. `most`
// bounds `count` in mix_samples_at. -EINVAL or -ERANGE, with a sentence, for a run that cannot be; -ENOMEM.
int mix_samples_open(const struct mix_run *run, const struct mix_source *sources, uint32_t most,
                     struct mix_samples **samples, struct error *error);

// NULL is ignored.
void mix_samples_close(struct mix_samples *samples);

// What stands at positions first..first+count-1 of the run; UINT64_MAX outside of it. Positions that follow those of
// the previous call are found fastest.
void mix_samples_at(struct mix_samples *samples, uint64_t first, uint32_t count, uint64_t *found);

// The sources that the samples of the last call came from, one draw for each.
const struct mix_draw *mix_samples_draws(const struct mix_samples *samples);

// Which sample takes the place of the one at a position of the run if that cannot be read, in this attempt: the one
// that would in an epoch of the source alone (order/replace.h), with the epoch and the position that the sample has
// there. UINT64_MAX outside of the run.
uint64_t mix_samples_replacement(struct mix_samples *samples, uint64_t position, uint32_t attempt);

#endif
