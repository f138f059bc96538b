#include "daemon/supervisor/delivery/fill_loaders.h"

#include "base/sizes.h"
#include "daemon/supervisor/delivery/window.h"
#include "shm/ring_supervisor.h"

static bool choose(struct delivery *delivery, const struct lane *lane, uint64_t sequence) {
    struct loaders_fill *fill = CONTAINER_OF(delivery->filler, struct loaders_fill, filler);
    struct batch_place place;
    return !fill->events || (partition_locate(&delivery->partition, lane->rank, sequence, &place) == 0 &&
                             fill->events->choose(fill, delivery, &place));
}

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

static int mend(struct delivery *delivery, struct lane *lane, uint64_t sequence, uint32_t slot) {
    struct loaders_fill *fill = CONTAINER_OF(delivery->filler, struct loaders_fill, filler);
    struct batch_place place;
    struct ring_batch batch = {.run = delivery->run, .rank = lane->rank, .sequence = sequence};
    if (!fill->events || partition_locate(&delivery->partition, lane->rank, sequence, &place) < 0)
        return -EBADMSG;
    return fill->events->mend(fill, delivery, slot, &batch, &place);
}

static void wake(struct delivery *delivery, uint32_t chunks) {
    ring_wake_loaders(delivery->ring, chunks);
}

static const struct filler_operations loaders = {
    .rank_option = "local_world_size",
    .here = "on this machine",
    .filling = WAIT_LOADERS,
    .no_slot = WAIT_LOADERS,
    .choose = choose,
    .dispatch = dispatch,
    .dispatch_again = dispatch_again,
    .mend = mend,
    .wake = wake,
};

void loaders_fill_init(struct loaders_fill *fill, const struct loaders_fill_events *events) {
    *fill = (struct loaders_fill){.filler = {&loaders}, .events = events};
}
