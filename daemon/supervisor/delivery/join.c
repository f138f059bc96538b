// Joining and leaving a feed: where a consumer begins, how much it may hold, what becomes of what it held.
#include <inttypes.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/supervisor/delivery/window.h"
#include "order/partition.h"

#define PREFETCH_MOST 64u // what a feed chooses by itself

struct lane *lane_find(const struct delivery *delivery, uint64_t rank) {
    struct lane *lane;
    LIST_FOREACH(lane, &delivery->lanes, link)
        if (lane->rank == rank)
            return lane;
    return NULL;
}

// Nobody may be on it.
static void remove_lane(struct delivery *delivery, struct lane *lane) {
    if (delivery->source)
        tap_leave(delivery, lane);
    while (lane->length)
        window_pop(delivery, lane);
    // Those that are still being copied from stay until that is done.
    for (uint32_t slot = 0; slot < delivery->ring->header->slot_count; slot++)
        if (delivery->slots[slot].lane == lane)
            delivery->slots[slot].lane = NULL;
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
                         " that the feed was made for%s; set %s to the ranks on this %s",
                         rank, delivery->lane_limit, delivery->source ? " on that GPU" : "",
                         delivery->source ? "device_world_size" : "local_world_size",
                         delivery->source ? "GPU" : "machine");
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
        if (consumer->pool_lane ? !lane_untouched(consumer->pool_lane) : consumer->batches > 0)
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

static bool is_deserted(const struct lane *lane) {
    return !lane || LIST_EMPTY(&lane->consumers);
}

// The first batch that somebody of the lane, or of a pool's lane that is fed by it, is still to be granted. Pools take
// batches from the ring before anybody asks for them.
static uint64_t lane_start(const struct lane *lane) {
    const struct consumer *consumer;
    uint64_t start = lane->base;
    LIST_FOREACH(consumer, &lane->consumers, link)
        if (consumer->pool_lane)
            start = min_u64(start, consumer->pool_lane->base);
    return start;
}

bool lane_can_begin(const struct lane *lane, uint64_t sequence) {
    return is_deserted(lane) || sequence >= lane->base || lane_untouched(lane);
}

// Whether a pool's lane gets there: by what it has and goes on from, or by its source going back.
static bool can_begin_in_pool(const struct delivery *pool, const struct lane *lane, uint64_t rank,
                              uint64_t sequence) {
    const struct lane *source = lane_find(pool->source, rank);
    if (lane_can_begin(source, sequence))
        return true;
    return lane && sequence >= lane->base && sequence - lane->base <= lane->length &&
           lane_can_begin(source, lane->base + lane->length);
}

// Where one begins who says nothing: where the others of his rank are; as far back as that, if nobody has gone on yet.
// Those in a pool may be at their end, and the ring further on.
static uint64_t usual_start(const struct delivery *delivery, uint64_t rank) {
    const struct lane *lane = lane_find(delivery, rank);
    if (!is_deserted(lane)) {
        uint64_t start = lane_untouched(lane) ? lane_start(lane) : lane->base;
        if (!delivery->source || can_begin_in_pool(delivery, lane, rank, start))
            return start;
    }
    return delivery->source ? usual_start(delivery->source, rank) : delivery->first_sequence;
}

// What a pool's lane still has is wanted there, and what would come behind it is gone.
static bool cannot_go_on(const struct delivery *pool, const struct lane *lane, uint64_t rank) {
    return !is_deserted(lane) && lane->length &&
           !lane_can_begin(lane_find(pool->source, rank), lane->base + lane->length);
}

static int find_start(const struct delivery *delivery, uint64_t rank, const struct start_position *start,
                      uint64_t *sequence, struct error *error) {
    const struct lane *lane = lane_find(delivery, rank);
    *sequence = usual_start(delivery, rank);
    if (delivery->source && cannot_go_on(delivery, lane, rank))
        return error_set(error, -ESTALE,
                         "the consumers of rank %" PRIu64
                         " on that GPU have yet to come to the end of a shorter run,"
                         " and the feed has gone on beyond it: attach again when they are done",
                         rank);
    if (!start->given)
        return 0;
    if (partition_sequence(&delivery->partition, start->epoch, start->consumed, sequence) < 0)
        return error_set(
            error, -ESTALE,
            "epoch %" PRIu64 ", sample %" PRIu64
            " is no place where a batch of the running feed begins; resume in a feed of another name",
            start->epoch, start->consumed);
    if (!lane_can_begin(lane, *sequence) ||
        (delivery->source && !can_begin_in_pool(delivery, lane, rank, *sequence)))
        return error_set(error, -ESTALE,
                         "the feed has gone on: batch %" PRIu64
                         " of this run is wanted, which is no longer here; resume in a feed of another name",
                         *sequence);
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

static void follow_end(struct lane *lane) {
    const struct consumer *other;
    lane->end = 0;
    LIST_FOREACH(other, &lane->consumers, link)
        if (!consumer_at_end(other))
            lane->end = max_u64(lane->end, other->end);
}

void lane_set_end(struct delivery *delivery, struct consumer *consumer, uint64_t end) {
    struct lane *lane = consumer->lane;
    count_references(delivery, lane, consumer, -1);
    consumer->end = max_u64(consumer->cursor, end);
    count_references(delivery, lane, consumer, 1);
    follow_end(lane);
    window_trim(delivery, lane); // it may begin further on than what is left for the others
}

void lane_skip(struct delivery *delivery, struct consumer *consumer, uint64_t sequence) {
    struct lane *lane = consumer->lane;
    count_references(delivery, lane, consumer, -1);
    consumer->cursor = sequence;
    consumer->end = max_u64(consumer->cursor, consumer->end);
    count_references(delivery, lane, consumer, 1);
    window_trim(delivery, lane);
}

int lane_join(struct delivery *delivery, struct consumer *consumer, uint64_t rank, uint64_t sequence,
              uint64_t end, uint32_t prefetch, struct error *error) {
    struct lane *lane = lane_find(delivery, rank);
    int err = lane ? 0 : make_lane(delivery, rank, &lane, error);
    if (err)
        return err;
    if (LIST_EMPTY(&lane->consumers))
        seek_lane(delivery, lane, sequence);
    else if (sequence < lane->base)
        rewind_lane(delivery, lane, sequence);
    if (delivery->source)
        err = tap_join(delivery, lane, sequence, LIST_EMPTY(&lane->consumers) ? end : max_u64(lane->end, end),
                       error);
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
    if (delivery->source)
        lane_set_end(delivery->source, &lane->tap, lane->end); // less, if it has come to its end already
    return 0;
}

int delivery_join(struct delivery *delivery, struct consumer *consumer, uint32_t rank, uint64_t epochs,
                  const struct start_position *start, uint32_t prefetch, struct error *error) {
    uint64_t sequence = 0;
    int err = find_start(delivery, rank, start, &sequence, error);
    if (err)
        return err;
    return lane_join(delivery, consumer, rank, sequence, end_of_run(delivery, epochs), prefetch, error);
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

// What a pool's consumer had queued on its stream is waited for no longer: it has synchronised, or is dead, or has been
// told that it lost its batches.
static void forget_holder(struct delivery *pool, const struct consumer *consumer) {
    uint64_t others = ~(1ull << consumer->word);
    for (uint32_t slot = 0; slot < pool->ring->header->slot_count; slot++) {
        pool->slots[slot].holders &= others;
        // Also while the transfer process has the slot claimed. Release: the consumer's last reads, which its
        // socket has told of, came before; pairs with the acquire in copies.c.
        atomic_fetch_and_explicit(&ring_slot(pool->ring, slot)->unread, others, memory_order_release);
    }
}

void delivery_leave(struct delivery *delivery, struct consumer *consumer) {
    struct lane *lane = consumer->lane;
    if (!lane)
        return;
    if (delivery->source)
        forget_holder(delivery, consumer);
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
    // A lane that nobody is on stays warm; its tap would hold the source up.
    if (!LIST_EMPTY(&lane->consumers))
        follow_end(lane);
    if (delivery->source && LIST_EMPTY(&lane->consumers))
        tap_leave(delivery, lane);
    else if (delivery->source)
        lane_set_end(delivery->source, &lane->tap, lane->end);
    window_trim(delivery, lane);
}

void delivery_restart(struct delivery *delivery, const struct partition *partition) {
    struct lane *lane;
    while ((lane = LIST_FIRST(&delivery->lanes)))
        remove_lane(delivery, lane);
    delivery->partition = *partition;
    delivery->run++;
}
