// Where the samples that a feed delivers are stored: in the files of its dataset, or in those of a mix's sources.
#ifndef FEEDD_CLIENT_CTL_ORIGINS_H
#define FEEDD_CLIENT_CTL_ORIGINS_H

#include "base/error.h"
#include "client/ctl/files.h"

struct origins {
    uint32_t count;
    struct files *files; // of each source
    uint64_t *first;     // of a mix: the number of its first stored sample
    uint64_t epoch_samples;
    uint64_t seed;            // of the run; 0 if nothing in it is random
    bool replaces;            // others take the places of samples that cannot be read
    struct mix_samples *mix;  // NULL: there is one source, not a mix
    struct sampler *samplers; // of a mix: each source's
};

// `seed` and `shuffle` are those that the feed was asked for.
int origins_open(struct origins *origins, const struct ctl *ctl, const struct feed *feed, uint64_t seed,
                 bool shuffle, struct error *error);

void origins_close(struct origins *origins);

// The files of what is sample `sample` of the feed in that epoch, and its number there. NULL: there is no such sample.
struct files *origins_find(const struct origins *origins, uint64_t epoch, uint64_t sample, uint64_t *stored);

// The same of the sample that takes the place of the one at that position of the epoch, in this attempt
// (order/replace.h). NULL: none does.
struct files *origins_replacement(const struct origins *origins, uint64_t epoch, uint64_t position,
                                  uint32_t attempt, uint64_t *stored);

// Whether the index of any of them says where samples are.
bool origins_use_index(const struct origins *origins);

// Whether a field is transformed in any of them.
bool origins_transform(const struct origins *origins, uint32_t field);

#endif
