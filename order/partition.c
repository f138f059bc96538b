// How a run's epochs are cut into global batches and these among ranks, in closed form: nothing here loops
// over epochs, batches or ranks.
#include "order/partition.h"

#include <errno.h>

#include "base/sizes.h"

static bool usable(const struct partition *partition) {
    return partition->samples > 0 && partition->batch_size > 0 && partition->world_size > 0;
}

// Where `epoch` begins in this run.
static uint64_t epoch_begin(const struct partition *partition, uint64_t epoch) {
    return epoch == partition->start_epoch ? min_u64(partition->start_sample, partition->samples) : 0;
}

// A product beyond 64 bits is beyond any epoch too: everything is tail then.
static uint64_t global_batch(const struct partition *partition) {
    uint64_t global;
    bool overflow = __builtin_mul_overflow(partition->batch_size, partition->world_size, &global);
    return overflow ? UINT64_MAX : global;
}

uint64_t partition_batches(const struct partition *partition, uint64_t epoch) {
    if (!usable(partition))
        return 0;
    const uint64_t samples = partition->samples - epoch_begin(partition, epoch);
    const uint64_t global = global_batch(partition);
    return partition->drop_last ? samples / global : divide_up(samples, global);
}

// Batches of every epoch after the first.
static uint64_t later_batches(const struct partition *partition) {
    struct partition whole = *partition;
    whole.start_sample = 0;
    return partition_batches(&whole, whole.start_epoch);
}

// From `sequence` to the epoch and the batch in it.
static int split_sequence(const struct partition *partition, uint64_t sequence, struct batch_place *place) {
    const uint64_t first = partition_batches(partition, partition->start_epoch);
    if (sequence < first) {
        place->epoch = partition->start_epoch;
        place->index = sequence;
        return 0;
    }
    const uint64_t later = later_batches(partition);
    if (later == 0)
        return -ENODATA;
    const uint64_t epochs = (sequence - first) / later;
    if (epochs >= UINT64_MAX - partition->start_epoch)
        return -ERANGE;
    place->epoch = partition->start_epoch + 1 + epochs;
    place->index = (sequence - first) % later;
    return 0;
}

// The tail, `samples` from `begin`, is shared out so that ranks differ by one sample at most.
static void place_tail(uint64_t begin, uint64_t samples, uint64_t world_size, uint64_t rank,
                       struct batch_place *place) {
    const uint64_t share = samples / world_size, longer = samples % world_size;
    place->first_position = begin + rank * share + min_u64(rank, longer);
    place->count = share + (rank < longer);
    place->consumed = begin + samples;
}

int partition_locate(const struct partition *partition, uint64_t rank, uint64_t sequence,
                     struct batch_place *place) {
    if (!usable(partition) || rank >= partition->world_size)
        return -EINVAL;
    struct batch_place found = {0};
    int status = split_sequence(partition, sequence, &found);
    if (status < 0)
        return status;
    const uint64_t global = global_batch(partition);
    const uint64_t begin = epoch_begin(partition, found.epoch) + found.index * global;
    const uint64_t rest = partition->samples - begin;
    if (rest < global) {
        place_tail(begin, rest, partition->world_size, rank, &found);
    } else {
        found.first_position = begin + rank * partition->batch_size;
        found.count = partition->batch_size;
        found.consumed = begin + global;
    }
    found.last_of_epoch = found.index + 1 == partition_batches(partition, found.epoch);
    *place = found;
    return 0;
}

// Nothing of `epoch` is left to deliver after `consumed` (<= samples): its last batch is done or, in an epoch before
// this run, which may have been cut otherwise, less is left than the global batch that drop_last asks for.
static bool epoch_finished(const struct partition *partition, uint64_t epoch, uint64_t consumed) {
    if (consumed == partition->samples)
        return true;
    if (!partition->drop_last)
        return false;
    const uint64_t global = global_batch(partition);
    if (epoch < partition->start_epoch)
        return partition->samples - consumed < global;
    return consumed >= epoch_begin(partition, epoch) + partition_batches(partition, epoch) * global;
}

// The sequence number of an epoch's first batch.
static int epoch_sequence(const struct partition *partition, uint64_t epoch, uint64_t *sequence) {
    if (epoch == partition->start_epoch) {
        *sequence = 0;
        return 0;
    }
    const uint64_t whole_epochs = epoch - partition->start_epoch - 1;
    const uint64_t first = partition_batches(partition, partition->start_epoch);
    uint64_t batches;
    if (__builtin_mul_overflow(whole_epochs, later_batches(partition), &batches))
        return -ERANGE;
    return __builtin_add_overflow(batches, first, sequence) ? -ERANGE : 0;
}

int partition_sequence(const struct partition *partition, uint64_t epoch, uint64_t consumed,
                       uint64_t *sequence) {
    if (!usable(partition))
        return -EINVAL;
    if (consumed > partition->samples)
        return -ERANGE;
    if (later_batches(partition) == 0)
        return -ENODATA;
    if (epoch_finished(partition, epoch, consumed)) {
        if (epoch == UINT64_MAX)
            return -ERANGE;
        epoch++;
        consumed = 0;
    }
    const uint64_t begin = epoch_begin(partition, epoch);
    const uint64_t global = global_batch(partition);
    if (epoch < partition->start_epoch || consumed < begin || (consumed - begin) % global != 0)
        return -ERANGE;
    uint64_t found;
    int status = epoch_sequence(partition, epoch, &found);
    if (status < 0)
        return status;
    return __builtin_add_overflow(found, (consumed - begin) / global, sequence) ? -ERANGE : 0;
}
