#include "daemon/supervisor/delivery.h"

#include <inttypes.h>

#define PREFETCH_MOST 64u // what a feed chooses by itself

int delivery_open(struct delivery *delivery, struct ring *ring, const struct partition *partition,
                  uint32_t lane_limit) {
    uint32_t slot_count = ring->header->slot_count;
    *delivery = (struct delivery){.ring = ring, .partition = *partition, .lane_limit = lane_limit};
    LIST_INIT(&delivery->lanes);
    delivery->slots = calloc(slot_count, sizeof *delivery->slots);
    delivery->free_slots = calloc(slot_count, sizeof *delivery->free_slots);
    if (!delivery->slots || !delivery->free_slots) {
        delivery_close(delivery);
        return -ENOMEM;
    }
    // Popped from the end, so that slot 0 is used first.
    for (uint32_t slot = slot_count; slot-- > 0;)
        delivery->free_slots[delivery->free_count++] = slot;
    return 0;
}

void delivery_close(struct delivery *delivery) {
    struct lane *lane;
    while ((lane = LIST_FIRST(&delivery->lanes))) {
        LIST_REMOVE(lane, link);
        free(lane);
    }
    free(delivery->slots);
    free(delivery->free_slots);
    *delivery = (struct delivery){0};
}

// ---- Slots -------------------------------------------------------------------------------------------------

static void free_slot(struct delivery *delivery, uint32_t slot) {
    struct slot_state *state = &delivery->slots[slot];
    if (state->phase == SLOT_READY)
        delivery->ready_count--;
    if (state->lane)
        state->lane->slots_used--;
    ring_slot_free(delivery->ring, slot);
    *state = (struct slot_state){.phase = SLOT_FREE};
    // The slot used last is given out next: its lines are still in the cache.
    delivery->free_slots[delivery->free_count++] = slot;
}

static void free_if_unused(struct delivery *delivery, uint32_t slot) {
    const struct slot_state *state = &delivery->slots[slot];
    if (!state->references && !state->in_window)
        free_slot(delivery, slot);
}

static uint32_t window_at(const struct delivery *delivery, const struct lane *lane, uint32_t index) {
    return lane->window[(lane->window_start + index) % delivery->ring->header->slot_count];
}

// A batch leaves the window: granted to everybody, or no longer wanted.
static void pop_window(struct delivery *delivery, struct lane *lane) {
    uint32_t slot = window_at(delivery, lane, 0);
    struct slot_state *state = &delivery->slots[slot];
    lane->window_start = (lane->window_start + 1) % delivery->ring->header->slot_count;
    lane->base++;
    lane->length--;
    if (lane->ready)
        lane->ready--;
    state->in_window = false;
    if (state->phase == SLOT_READY) {
        free_if_unused(delivery, slot);
        return;
    }
    // Loaders are at it: it cannot be given out again before they are done.
    state->lane = NULL;
    lane->slots_used--;
    delivery->abandoned++;
}

static void trim_window(struct delivery *delivery, struct lane *lane) {
    const struct consumer *consumer;
    uint64_t slowest = UINT64_MAX;
    if (LIST_EMPTY(&lane->consumers))
        return; // stays warm for whoever comes next
    LIST_FOREACH(consumer, &lane->consumers, link)
    if (!consumer_at_end(consumer))
        slowest = min_u64(slowest, consumer->cursor);
    while (lane->length && lane->base < slowest)
        pop_window(delivery, lane);
    // Nobody is due what lies between, when the one who is left came with a position further on.
    if (lane->base < slowest && slowest != UINT64_MAX)
        lane->base = slowest;
}

// ---- Joining and leaving -----------------------------------------------------------------------------------

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
        pop_window(delivery, lane);
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
        pop_window(delivery, lane);
    lane->base = sequence;
}

static uint32_t lane_quota(const struct delivery *delivery) {
    return delivery->ring->header->slot_count / delivery->lane_limit;
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
        wanted = (uint32_t)min_u64(PREFETCH_MOST, max_u64(2, quota / 4));
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
        pop_window(delivery, lane);
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
    trim_window(delivery, lane); // it may begin further on than what is left for the others
    return 0;
}

static bool holds(const struct consumer *consumer, uint32_t slot) {
    return consumer->held[slot / 64] >> (slot % 64) & 1;
}

static bool find_held(const struct delivery *delivery, const struct consumer *consumer, uint64_t sequence,
                      uint32_t *slot) {
    for (*slot = 0; *slot < delivery->ring->header->slot_count; ++*slot)
        if (holds(consumer, *slot) && delivery->slots[*slot].sequence == sequence)
            return true;
    return false;
}

// The last consumer of a lane has died or left with batches in hand: they go back to the front of the window, as far as
// they join on, so that whoever continues at its token finds them read.
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
        if (holds(consumer, slot)) {
            delivery->slots[slot].references--;
            free_if_unused(delivery, slot);
        }
    consumer->lane = NULL;
    const struct consumer *other;
    if (!LIST_EMPTY(&lane->consumers)) {
        lane->end = 0;
        LIST_FOREACH(other, &lane->consumers, link)
        lane->end = max_u64(lane->end, other->end);
    }
    trim_window(delivery, lane);
}

void delivery_restart(struct delivery *delivery, const struct partition *partition) {
    struct lane *lane;
    while ((lane = LIST_FIRST(&delivery->lanes)))
        remove_lane(delivery, lane);
    delivery->partition = *partition;
}

// ---- Running -----------------------------------------------------------------------------------------------

int delivery_release(struct delivery *delivery, struct consumer *consumer, uint32_t slot) {
    if (slot >= delivery->ring->header->slot_count || !holds(consumer, slot))
        return -EINVAL;
    consumer->held[slot / 64] &= ~(1ull << (slot % 64));
    consumer->held_count--;
    consumer->lagging_since_ns = 0;
    delivery->slots[slot].references--;
    free_if_unused(delivery, slot);
    return 0;
}

static int collect_ready(struct delivery *delivery, struct lane *lane) {
    while (lane->ready < lane->length) {
        uint32_t slot = window_at(delivery, lane, lane->ready);
        enum ring_slot_state state = ring_slot_poll(delivery->ring, slot);
        if (state == RING_SLOT_FAILED)
            return -EIO;
        if (state == RING_SLOT_FILLING)
            return 0;
        delivery->slots[slot].phase = SLOT_READY;
        delivery->ready_count++;
        lane->ready++;
    }
    return 0;
}

static void collect_abandoned(struct delivery *delivery) {
    for (uint32_t slot = 0; delivery->abandoned && slot < delivery->ring->header->slot_count; slot++) {
        const struct slot_state *state = &delivery->slots[slot];
        if (state->phase != SLOT_FILLING || state->lane)
            continue;
        enum ring_slot_state filled = ring_slot_poll(delivery->ring, slot);
        // A failed one is not free before its other chunks are done: loaders still write into them.
        if (filled == RING_SLOT_FILLING || ring_slot_busy(delivery->ring, slot))
            continue;
        struct ring_error nobody_cares;
        if (filled == RING_SLOT_FAILED)
            ring_take_failure(delivery->ring, &nobody_cares);
        delivery->abandoned--;
        free_slot(delivery, slot);
    }
}

static struct lane *next_lane(const struct delivery *delivery) {
    struct lane *best = NULL, *lane;
    LIST_FOREACH(lane, &delivery->lanes, link) {
        uint64_t next = lane->base + lane->length;
        if (lane->slots_used >= lane_quota(delivery) || next >= lane->end)
            continue;
        if (!best || next < best->base + best->length)
            best = lane;
    }
    return best;
}

static bool dispatch(struct delivery *delivery, struct lane *lane, uint32_t slot) {
    uint64_t sequence = lane->base + lane->length;
    struct batch_place place;
    if (partition_locate(&delivery->partition, lane->rank, sequence, &place) < 0)
        return false;
    if (!ring_dispatch(delivery->ring, slot, lane->rank, sequence, &place))
        return false;
    delivery->free_count--;
    struct slot_state *state = &delivery->slots[slot];
    *state =
        (struct slot_state){.phase = SLOT_FILLING, .in_window = true, .lane = lane, .sequence = sequence};
    const struct consumer *consumer;
    LIST_FOREACH(consumer, &lane->consumers, link)
    state->references += sequence >= consumer->cursor && sequence < consumer->end;
    lane->window[(lane->window_start + lane->length) % delivery->ring->header->slot_count] = slot;
    lane->length++;
    lane->slots_used++;
    return true;
}

static int collect_all(struct delivery *delivery) {
    struct lane *lane;
    LIST_FOREACH(lane, &delivery->lanes, link) {
        int failed = collect_ready(delivery, lane);
        if (failed)
            return failed;
    }
    collect_abandoned(delivery);
    return 0;
}

int delivery_pump(struct delivery *delivery) {
    struct lane *lane;
    uint32_t chunks = 0;
    bool without_samples = false;
    int failed = collect_all(delivery);
    if (failed)
        return failed;
    while (delivery->free_count && (lane = next_lane(delivery))) {
        uint32_t slot = delivery->free_slots[delivery->free_count - 1];
        if (!dispatch(delivery, lane, slot))
            break;
        chunks += ring_slot(delivery->ring, slot)->chunk_count;
        without_samples |= ring_slot(delivery->ring, slot)->chunk_count == 0;
    }
    if (chunks)
        ring_wake_loaders(delivery->ring, chunks);
    // Those are complete as they are, and no loader will say so.
    return without_samples ? collect_all(delivery) : 0;
}

uint32_t delivery_grant(struct delivery *delivery, struct consumer *consumer, uint64_t *sequence,
                        uint32_t *slots, uint32_t most) {
    struct lane *lane = consumer->lane;
    uint32_t count = 0;
    *sequence = consumer->cursor;
    while (count < most && consumer->held_count < consumer->prefetch && !consumer_at_end(consumer) &&
           consumer->cursor >= lane->base && consumer->cursor - lane->base < lane->ready) {
        uint32_t slot = window_at(delivery, lane, (uint32_t)(consumer->cursor - lane->base));
        consumer->held[slot / 64] |= 1ull << (slot % 64);
        consumer->held_count++;
        consumer->cursor++;
        slots[count++] = slot;
    }
    if (count) {
        consumer->batches += count;
        trim_window(delivery, lane);
    }
    return count;
}

bool delivery_lane_blocked(const struct delivery *delivery, const struct lane *lane) {
    const struct consumer *consumer;
    if (lane->slots_used < lane_quota(delivery) && delivery->free_count)
        return false;
    LIST_FOREACH(consumer, &lane->consumers, link)
    if (consumer->waiting_since_ns && consumer->cursor == lane->base + lane->length &&
        !consumer_at_end(consumer))
        return true;
    return false;
}
