// Which positions of an epoch make up which batch of which rank. Pure functions of their arguments.
#ifndef FEEDD_ORDER_PARTITION_H
#define FEEDD_ORDER_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

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
// After an epoch's last batch (consumed == samples or, with drop_last, in the dropped tail) begins the next epoch.
// -ERANGE when the place lies before the run's start or is no batch boundary of this run, -ENODATA and -EINVAL as in
// partition_locate. `sequence` is untouched then.
int partition_sequence(const struct partition *partition, uint64_t epoch, uint64_t consumed,
                       uint64_t *sequence);

#endif
