// Joining and leaving a feed: where a consumer begins, how much it may hold, what becomes of what it held.
#include <inttypes.h>

#include "daemon/supervisor/delivery_window.h"

#define PREFETCH_MOST 64u // what a feed chooses by itself

static struct lane *find_lane(const struct delivery *delivery, uint64_t rank) {
    struct lane *lane;
    LIST_FOREACH(lane, &delivery->lanes, link)
    if (lane->rank == rank)
        return lane;
    return NULL;
}

// Nobody may be on it.
static void remove_lane(struct delivery *delivery, struct lane *lane) {
    while (lane->length)
        window_pop(delivery, lane);
    LIST_REMOVE(lane, link);
    delivery->lane_count--;
    free(lane);
}

// A lane that is only kept warm gives its place to a rank that somebody wants.
static void make_room_for_lane(struct delivery *delivery) {
    struct lane *lane;
    if (delivery->lane_count < delivery->lane_limit)
        return;
    LIST_FOREACH(lane, &delivery->lanes, link)
    if (LIST_EMPTY(&lane->consumers)) {
        remove_lane(delivery, lane);
        return;
    }
}

static int make_lane(struct delivery *delivery, uint64_t rank, struct lane **made, struct error *error) {
    make_room_for_lane(delivery);
    if (delivery->lane_count >= delivery->lane_limit)
        return error_set(error, -ENOSPC,
                         "rank %" PRIu64 " would be one rank more than the %" PRIu32
                         " that the feed was made for; set local_world_size to the ranks on this machine",
                         rank, delivery->lane_limit);
    uint32_t slot_count = delivery->ring->header->slot_count;
    struct lane *lane = calloc(1, sizeof *lane + slot_count * sizeof lane->window[0]);
    if (!lane)
        return error_set(error, -ENOMEM, "out of memory");
    lane->rank = rank;
    lane->base = delivery->first_sequence;
    LIST_INIT(&lane->consumers);
    LIST_INSERT_HEAD(&delivery->lanes, lane, link);
    delivery->lane_count++;
    *made = lane;
    return 0;
}

static void seek_lane(struct delivery *delivery, struct lane *lane, uint64_t sequence) {
    bool ahead = sequence >= lane->base && sequence - lane->base <= lane->length;
    while (lane->length && (!ahead || lane->base < sequence))
        window_pop(delivery, lane);
    lane->base = sequence;
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

// Nobody has been granted anything since he joined, so the lane can still go anywhere.
static bool lane_untouched(const struct lane *lane) {
    const struct consumer *consumer;
    LIST_FOREACH(consumer, &lane->consumers, link)
    if (consumer->batches)
        return false;
    return true;
}

// To before the window, for one who comes with an earlier token. Those who wait are counted again at dispatch.
static void rewind_lane(struct delivery *delivery, struct lane *lane, uint64_t sequence) {
    for (uint32_t i = 0; i < lane->length; i++)
        delivery->slots[window_at(delivery, lane, i)].references = 0;
    while (lane->length)
        window_pop(delivery, lane);
    lane->base = sequence;
}

// `lane` is NULL when the rank has none yet.
static int find_start(const struct delivery *delivery, const struct lane *lane,
                      const struct start_position *start, uint64_t *sequence, struct error *error) {
    bool deserted = !lane || LIST_EMPTY(&lane->consumers);
    *sequence = deserted ? delivery->first_sequence : lane->base;
    if (!start->given)
        return 0;
    if (partition_sequence(&delivery->partition, start->epoch, start->consumed, sequence) < 0)
        return error_set(
            error, -ESTALE,
            "epoch %" PRIu64 ", sample %" PRIu64
            " is no place where a batch of the running feed begins; resume in a feed of another name",
            start->epoch, start->consumed);
    if (!deserted && *sequence < lane->base && !lane_untouched(lane))
        return error_set(error, -ESTALE,
                         "the feed has gone on: batch %" PRIu64 " of this run is wanted, %" PRIu64
                         " is the first one still here; resume in a feed of another name",
                         *sequence, lane->base);
    return 0;
}

static uint64_t end_of_run(const struct delivery *delivery, uint64_t epochs) {
    uint64_t sequence = 0;
    if (!epochs)
        return UINT64_MAX;
    if (partition_sequence(&delivery->partition, epochs, 0, &sequence) == 0)
        return sequence;
    // An end before this run's start is an empty run; one that 64 bits do not reach is none.
    return epochs <= delivery->partition.start_epoch ? 0 : UINT64_MAX;
}

// Adds or takes back a consumer's claim to the batches in the window that it has not been granted.
static void count_references(struct delivery *delivery, const struct lane *lane,
                             const struct consumer *consumer, int change) {
    for (uint32_t i = 0; i < lane->length; i++) {
        uint64_t sequence = lane->base + i;
        if (sequence >= consumer->cursor && sequence < consumer->end)
            delivery->slots[window_at(delivery, lane, i)].references += (uint32_t)change;
    }
}

int delivery_join(struct delivery *delivery, struct consumer *consumer, uint32_t rank, uint64_t epochs,
                  const struct start_position *start, uint32_t prefetch, struct error *error) {
    struct lane *lane = find_lane(delivery, rank);
    uint64_t sequence = 0;
    int failed = find_start(delivery, lane, start, &sequence, error);
    if (!failed && !lane)
        failed = make_lane(delivery, rank, &lane, error);
    if (failed)
        return failed;
    if (LIST_EMPTY(&lane->consumers)) {
        seek_lane(delivery, lane, sequence);
        lane->end = 0;
    } else if (sequence < lane->base) {
        rewind_lane(delivery, lane, sequence);
    }
    if (!delivery->consumer_count)
        delivery->first_sequence = sequence;
    consumer->lane = lane;
    consumer->cursor = sequence;
    consumer->end = max_u64(sequence, end_of_run(delivery, epochs));
    consumer->prefetch = choose_prefetch(delivery, lane, prefetch);
    count_references(delivery, lane, consumer, 1);
    LIST_INSERT_HEAD(&lane->consumers, consumer, link);
    lane->end = max_u64(lane->end, consumer->end);
    delivery->consumer_count++;
    window_trim(delivery, lane); // it may begin further on than what is left for the others
    return 0;
}

static bool find_held(const struct delivery *delivery, const struct consumer *consumer, uint64_t sequence,
                      uint32_t *slot) {
    for (*slot = 0; *slot < delivery->ring->header->slot_count; ++*slot)
        if (consumer_holds(consumer, *slot) && delivery->slots[*slot].sequence == sequence)
            return true;
    return false;
}

// The last consumer of a lane has died or left with batches in hand: they go back to the front of the window,
// as far as they join on, so that whoever continues at its token finds them read.
static void restore_window(struct delivery *delivery, struct lane *lane, const struct consumer *consumer) {
    uint32_t slot_count = delivery->ring->header->slot_count;
    uint32_t slot;
    while (lane->base && find_held(delivery, consumer, lane->base - 1, &slot)) {
        lane->window_start = (lane->window_start + slot_count - 1) % slot_count;
        lane->window[lane->window_start] = slot;
        delivery->slots[slot].in_window = true;
        lane->base--;
        lane->length++;
        lane->ready++;
    }
}

void delivery_leave(struct delivery *delivery, struct consumer *consumer) {
    struct lane *lane = consumer->lane;
    if (!lane)
        return;
    LIST_REMOVE(consumer, link);
    delivery->consumer_count--;
    count_references(delivery, lane, consumer, -1);
    if (LIST_EMPTY(&lane->consumers))
        restore_window(delivery, lane, consumer);
    for (uint32_t slot = 0; slot < delivery->ring->header->slot_count; slot++)
        if (consumer_holds(consumer, slot)) {
            delivery->slots[slot].references--;
            slot_free_if_unused(delivery, slot);
        }
    consumer->lane = NULL;
    const struct consumer *other;
    if (!LIST_EMPTY(&lane->consumers)) {
        lane->end = 0;
        LIST_FOREACH(other, &lane->consumers, link)
        lane->end = max_u64(lane->end, other->end);
    }
    window_trim(delivery, lane);
}

void delivery_restart(struct delivery *delivery, const struct partition *partition) {
    struct lane *lane;
    while ((lane = LIST_FIRST(&delivery->lanes)))
        remove_lane(delivery, lane);
    delivery->partition = *partition;
}
