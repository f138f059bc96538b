#include "daemon/supervisor/delivery/join.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/supervisor/delivery/filler.h"
#include "daemon/supervisor/delivery/lane.h"
#include "daemon/supervisor/delivery/window.h"
#include "order/partition.h"

#define PREFETCH_MOST 64u // that a feed chooses by default

// ---- Where it begins ---------------------------------------------------------------------------------------

// Where the others of the rank are, or, until somebody has moved on, as far back as any of them began. In a pool they
// may be at their end, and the ring further ahead.
uint64_t join_usual_start(const struct delivery *delivery, uint64_t rank) {
    const struct lane *lane = lane_find(delivery, rank);
    if (!lane_is_deserted(lane)) {
        uint64_t start = lane_untouched(lane) ? lane_start(lane) : lane->base;
        if (filler_can_begin(delivery, lane, rank, start))
            return start;
    }
    return filler_first_start(delivery, rank);
}

static int find_start(const struct delivery *delivery, uint64_t rank, const struct start_position *start,
                      uint64_t *sequence, struct error *error) {
    const struct lane *lane = lane_find(delivery, rank);
    int err = filler_admits(delivery, lane, rank, error);
    if (err)
        return err;
    *sequence = join_usual_start(delivery, rank);
    if (!start->given)
        return 0;
    if (partition_sequence(&delivery->partition, start->epoch, start->consumed, sequence) < 0)
        return error_set(error, -ESTALE,
                         "no batch of the running feed begins at epoch %" PRIu64 ", sample %" PRIu64
                         ": the consumer that attached first, perhaps after a restart of feedd, began it"
                         " elsewhere; resume in a feed with another name",
                         start->epoch, start->consumed);
    bool can_begin = start->goes_back || lane_can_begin(lane, *sequence);
    if (!can_begin || !filler_can_begin(delivery, lane, rank, *sequence))
        return error_set(error, -ESTALE,
                         "the feed has moved on: batch %" PRIu64
                         " of this run is no longer here; resume in a feed with another name",
                         *sequence);
    return 0;
}

static uint64_t end_of_run(const struct delivery *delivery, uint64_t epochs) {
    uint64_t sequence = 0;
    if (!epochs)
        return UINT64_MAX;
    if (partition_sequence(&delivery->partition, epochs, 0, &sequence) == 0)
        return sequence;
    // An end before this run's start is an empty run; one beyond 64 bits is no end at all.
    return epochs <= delivery->partition.start_epoch ? 0 : UINT64_MAX;
}

// The lane must be able to move while every consumer holds all but one of its leases and asks for more: so the sum of
// (prefetch - 1) stays two below the lane's share of the ring, and a newcomer gets what is left, at least one.
static uint32_t choose_prefetch(const struct delivery *delivery, const struct lane *lane, uint32_t wanted) {
    const struct consumer *other;
    uint32_t quota = lane_quota(delivery);
    uint32_t taken = 2;
    LIST_FOREACH(other, &lane->consumers, link)
        taken += other->prefetch - 1;
    uint32_t most = quota > taken ? quota - taken + 1 : 1;
    if (!wanted)
        wanted = (uint32_t)min_u64(PREFETCH_MOST, max_u64(2, quota / (delivery->shared ? 4 : 2)));
    return (uint32_t)min_u64(wanted, most);
}

int join_at(struct delivery *delivery, struct consumer *consumer, uint64_t rank, uint64_t sequence,
            uint64_t end, uint32_t prefetch, struct error *error) {
    struct lane *lane;
    int err = lane_get(delivery, rank, &lane, error);
    if (err)
        return err;
    if (lane_is_deserted(lane))
        lane_seek(delivery, lane, sequence);
    else if (sequence < lane->base)
        lane_rewind(delivery, lane, sequence);
    err =
        filler_join(delivery, lane, sequence, lane_is_deserted(lane) ? end : max_u64(lane->end, end), error);
    if (err)
        return err;
    if (!delivery->consumer_count)
        delivery->first_sequence = sequence;
    consumer->lane = lane;
    consumer->cursor = sequence;
    consumer->end = sequence; // until lane_set_end
    consumer->prefetch = choose_prefetch(delivery, lane, prefetch);
    LIST_INSERT_HEAD(&lane->consumers, consumer, link);
    delivery->consumer_count++;
    lane_set_end(delivery, consumer, end);
    return 0;
}

int delivery_join(struct delivery *delivery, struct consumer *consumer, uint32_t rank, uint64_t epochs,
                  const struct start_position *start, uint32_t prefetch, struct error *error) {
    uint64_t sequence = 0;
    delivery->goes_back = start->goes_back;
    int err = find_start(delivery, rank, start, &sequence, error);
    if (!err)
        err = join_at(delivery, consumer, rank, sequence, end_of_run(delivery, epochs), prefetch, error);
    delivery->goes_back = false;
    return err;
}

// ---- Leaving -----------------------------------------------------------------------------------------------

static bool find_held(const struct delivery *delivery, const struct consumer *consumer, uint64_t sequence,
                      uint32_t *slot) {
    for (*slot = 0; *slot < delivery->ring->header->slot_count; ++*slot)
        if (consumer_holds(consumer, *slot) && delivery->slots[*slot].sequence == sequence)
            return true;
    return false;
}

// The last consumer of a lane has died or left while holding batches: those that join the window go back to its front,
// so that a consumer that continues from its token finds them already read.
static void restore_window(const struct delivery *delivery, struct lane *lane,
                           const struct consumer *consumer) {
    uint32_t slot;
    while (lane->base && find_held(delivery, consumer, lane->base - 1, &slot))
        window_put_back(delivery, lane, slot);
}

void delivery_leave(struct delivery *delivery, struct consumer *consumer) {
    struct lane *lane = consumer->lane;
    if (!lane)
        return;
    filler_left(delivery, consumer);
    LIST_REMOVE(consumer, link);
    delivery->consumer_count--;
    lane_unclaim(delivery, lane, consumer);
    if (lane_is_deserted(lane))
        restore_window(delivery, lane, consumer);
    for (uint32_t slot = 0; slot < delivery->ring->header->slot_count; slot++)
        if (consumer_holds(consumer, slot)) {
            delivery->slots[slot].references--;
            slot_free_if_unused(delivery, slot);
        }
    consumer->lane = NULL;
    // A lane that nobody is on stays warm, with its end; but it must not hold up what it takes batches from.
    if (lane_is_deserted(lane))
        filler_leave(delivery, lane);
    else
        lane_follow_end(delivery, lane);
    lane_trim(delivery, lane);
}
