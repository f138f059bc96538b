#include "daemon/supervisor/delivery/fill_loaders.h"
#include "daemon/supervisor/delivery/window.h"
#include "order/partition.h"
#include "shm/ring_supervisor.h"

static bool dispatch(struct delivery *delivery, struct lane *lane, uint32_t slot) {
    uint64_t sequence = window_end(lane);
    struct batch_place place;
    struct ring_batch batch = {.run = delivery->run, .rank = lane->rank, .sequence = sequence};
    return partition_locate(&delivery->partition, lane->rank, sequence, &place) == 0 &&
           ring_dispatch(delivery->ring, slot, &batch, &place);
}

static bool dispatch_again(struct delivery *delivery, const struct lane *lane, uint64_t sequence,
                           uint32_t slot) {
    struct batch_place place;
    struct ring_batch batch = {.run = delivery->run, .rank = lane->rank, .sequence = sequence};
    if (partition_locate(&delivery->partition, lane->rank, sequence, &place) < 0)
        return false;
    ring_dispatch_again(delivery->ring, slot, &batch, &place);
    return true;
}

static void wake(struct delivery *delivery, uint32_t chunks) {
    ring_wake_loaders(delivery->ring, chunks);
}

static const struct filler_operations loaders = {
    .rank_option = "local_world_size",
    .here = "on this machine",
    .dispatch = dispatch,
    .dispatch_again = dispatch_again,
    .wake = wake,
};

const struct filler loaders_filler = {&loaders};
