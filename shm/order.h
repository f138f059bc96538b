// The order contract: which sample stands at which position of which epoch, and which positions make up
// which batch of which rank. Pure functions of their arguments; the same on every machine and for ever
// (a change is a new ORDER_* version, and tests/unit pins each version with golden vectors).
#ifndef FEEDD_SHM_ORDER_H
#define FEEDD_SHM_ORDER_H

#include "shm/base.h"

enum order_version {
    ORDER_SEQUENTIAL = 0, // position p is sample p
    ORDER_FEISTEL_1 = 1,  // keyed Feistel network with cycle walking
};

// One epoch's permutation of 0..samples-1. Plain data; copy it freely.
struct order {
    uint64_t samples;
    enum order_version version;
    uint32_t left_bits;
    uint32_t right_bits;
    uint64_t keys[12]; // one a round
};

// `samples` >= 1. Any seed, any epoch.
void order_init(struct order *order, enum order_version version, uint64_t samples, uint64_t seed,
                uint64_t epoch);

// The sample at `position`; UINT64_MAX, which is no sample, for a position >= samples. O(1) memory; a few
// dozen nanoseconds.
uint64_t order_sample(const struct order *order, uint64_t position);

// order_sample for positions first..first+count-1, computed side by side and several times faster. The cost
// is highest, twice the lowest, just above a power of two, and grows below 128 samples.
void order_samples(const struct order *order, uint64_t first, uint32_t count, uint64_t *samples);

// How a run cuts epochs into batches. A run may begin in mid-epoch: its first epoch then covers positions
// start_sample..samples-1 alone; every later epoch covers all.
struct partition {
    uint64_t samples;
    uint64_t batch_size; // a rank's batch
    uint64_t world_size;
    bool drop_last;
    uint64_t start_epoch;
    uint64_t start_sample; // global samples of start_epoch consumed before this run; all of them if > samples
};

// Where one rank's batch lies.
struct batch_place {
    uint64_t epoch;
    uint64_t index;          // global batch in this epoch of this run, from 0
    uint64_t first_position; // positions first_position..first_position+count-1 of the epoch's order
    uint64_t count;          // samples; 0 only for the last ranks of a tail shorter than world_size
    uint64_t consumed;       // global samples of `epoch` consumed once every rank is done with this batch: at
                             // the last one `samples`, or less by the tail that drop_last drops
    bool last_of_epoch;
};

// Batches a rank gets in `epoch` (>= start_epoch) of this run; the same for every rank. May be 0 for a
// first epoch resumed at its end, and for drop_last with fewer samples than a global batch; 0 as well for a
// partition of no samples, batch size 0 or world size 0.
uint64_t partition_batches(const struct partition *partition, uint64_t epoch);

// Batch number `sequence` (0, 1, ... over all epochs of the run) of `rank`.
// -ENODATA when no epoch of this run has a batch at all, -EINVAL for a rank >= world_size or a partition that
// has no samples, batch size or world size, -ERANGE past epoch 2^64-1. `place` is untouched then.
int partition_locate(const struct partition *partition, uint64_t rank, uint64_t sequence,
                     struct batch_place *place);

// The sequence number of the first batch at or after (epoch, consumed): the inverse of batch_place.consumed.
// Behind an epoch's last batch (consumed == samples or, with drop_last, in the dropped tail) begins the next epoch.
// -ERANGE when the place lies before the run's start or is no batch boundary of this run, -ENODATA and -EINVAL as in
// partition_locate. `sequence` is untouched then.
int partition_sequence(const struct partition *partition, uint64_t epoch, uint64_t consumed,
                       uint64_t *sequence);

// Where a consumer stands, as text that a training script can keep in a checkpoint: one printable word,
// feedd1.<order version>.<fingerprint>.<seed>.<epoch>.<consumed>.<check>, numbers in decimal, the fingerprint
// and the check (XXH64 of all before its dot) as 16 hexadecimal digits.
struct resume_token {
    enum order_version version;
    uint64_t fingerprint; // of the dataset
    uint64_t seed;
    uint64_t epoch;
    uint64_t consumed; // global samples of that epoch
};

#define RESUME_TOKEN_BYTES 128 // room for any token's text, NUL included

void resume_token_format(const struct resume_token *token, char text[RESUME_TOKEN_BYTES]);

// Takes only what resume_token_format writes, to the letter: -EINVAL with a sentence for text that is no
// token, is damaged, or is of a token form or order version that this build does not know; `token` is
// untouched then. Whether the dataset has that many samples is for the caller to check.
int resume_token_parse(const char *text, struct resume_token *token, struct error *error);

#endif
