#include "daemon/supervisor/delivery/fill_tap.h"

#include <inttypes.h>

#include "base/error.h"
#include "daemon/supervisor/delivery/delivery.h"
#include "daemon/supervisor/delivery/join.h"
#include "daemon/supervisor/delivery/lane.h"
#include "daemon/supervisor/delivery/wait_cause.h"
#include "daemon/supervisor/delivery/window.h"
#include "shm/ring_supervisor.h"

// The source's lane; only while there is a tap_lane.
static struct lane *source_lane(const struct lane *lane) {
    return tap_lane_of(lane)->consumer.lane;
}

static int open_slots(struct delivery *pool) {
    struct tap *tap = tap_of(pool);
    tap->slots = calloc(pool->ring->header->slot_count, sizeof *tap->slots);
    return tap->slots ? 0 : -ENOMEM;
}

static void close_slots(struct delivery *pool) {
    struct tap *tap = tap_of(pool);
    free(tap->slots);
    tap->slots = NULL;
}

// ---- Batches -----------------------------------------------------------------------------------------------

static bool ready(const struct delivery *pool, const struct lane *lane) {
    (void)pool;
    if (!lane->filling)
        return false;
    const struct consumer *consumer = &tap_lane_of(lane)->consumer;
    const struct lane *source = consumer->lane;
    return !consumer_at_end(consumer) && consumer->cursor >= source->base &&
           consumer->cursor - source->base < source->ready;
}

static enum wait_cause waits_for(const struct delivery *pool, const struct lane *lane) {
    return lane->filling ? wait_cause_of(tap_of(pool)->source, &tap_lane_of(lane)->consumer) : WAIT_LOADERS;
}

// Of the source: where the lane's next batch is complete.
static uint32_t next_source(const struct delivery *pool, const struct lane *lane) {
    const struct consumer *consumer = &tap_lane_of(lane)->consumer;
    return window_at(tap_of(pool)->source, consumer->lane,
                     (uint32_t)(consumer->cursor - consumer->lane->base));
}

static bool choose(struct delivery *pool, const struct lane *lane, uint64_t sequence) {
    struct tap *tap = tap_of(pool);
    (void)sequence;
    return !tap->events ||
           tap->events->choose(tap, pool, ring_batch_end(tap->source->ring, next_source(pool, lane)));
}

static bool dispatch(struct delivery *pool, struct lane *lane, uint32_t slot) {
    struct delivery *source = tap_of(pool)->source;
    struct tap_slot *state = &tap_of(pool)->slots[slot];
    struct consumer *consumer = &tap_lane_of(lane)->consumer;
    uint32_t from = next_source(pool, lane);
    uint64_t sequence;
    if (!ring_dispatch_copy(pool->ring, slot, source->ring, from, state->holders))
        return false;
    *state = (struct tap_slot){.source = from};
    // Kept by the copy from here on, and not by the lane's place.
    source->slots[from].copies++;
    delivery_grant(source, consumer, &sequence, &from, 1);
    delivery_release(source, consumer, from);
    return true;
}

static void done(struct delivery *pool, uint32_t slot) {
    struct delivery *source = tap_of(pool)->source;
    uint32_t from = tap_of(pool)->slots[slot].source;
    source->slots[from].copies--;
    slot_free_if_unused(source, from);
}

// ---- Consumers of the pool ---------------------------------------------------------------------------------

static void granted(struct delivery *pool, const struct consumer *consumer, uint32_t slot) {
    tap_of(pool)->slots[slot].holders |= 1ull << consumer->bit;
}

// What the consumer had queued on its stream is no longer waited for: it has synchronised, or is dead, or has been told
// that it lost its batches.
static void left(struct delivery *pool, const struct consumer *consumer) {
    uint64_t others = ~(1ull << consumer->bit);
    for (uint32_t slot = 0; slot < pool->ring->header->slot_count; slot++) {
        tap_of(pool)->slots[slot].holders &= others;
        // Also while the transfer process has the slot claimed. Release: the consumer's last reads, which its
        // socket has told of, came before; pairs with the acquire in copies.c.
        atomic_fetch_and_explicit(&ring_slot(pool->ring, slot)->unread, others, memory_order_release);
    }
}

// ---- A lane's place in the source --------------------------------------------------------------------------

// The source asks about the consumers in the pool; see struct consumer_operations.
static const struct lane *pool_lane(const struct consumer *consumer) {
    return CONTAINER_OF(consumer, struct tap_lane, consumer)->lane;
}

static bool place_untouched(const struct consumer *consumer) {
    return lane_untouched(pool_lane(consumer));
}

static uint64_t place_start(const struct consumer *consumer) {
    return lane_start(pool_lane(consumer));
}

static bool place_starves(const struct consumer *consumer) {
    const struct delivery *pool = CONTAINER_OF(consumer, struct tap_lane, consumer)->pool;
    return !lane_full(pool, pool_lane(consumer)) && lane_starves(pool_lane(consumer), NULL);
}

static const struct consumer_operations place_operations = {
    .untouched = place_untouched,
    .start = place_start,
    .starves = place_starves,
};

// The source's lane, which may be NULL, can continue there for a consumer that joins.
static bool source_can_begin(const struct delivery *pool, const struct lane *source, uint64_t sequence) {
    return pool->goes_back || lane_can_begin(source, sequence);
}

// What the lane still has is wanted, and the source no longer has what comes after it.
static int admits(const struct delivery *pool, const struct lane *lane, uint64_t rank, struct error *error) {
    if (lane_is_deserted(lane) || !lane->length ||
        source_can_begin(pool, lane_find(tap_of(pool)->source, rank), window_end(lane)))
        return 0;
    return error_set(error, -ESTALE,
                     "the consumers of rank %" PRIu64
                     " on that GPU have not come to the end of a shorter run,"
                     " and the feed has moved on beyond it: attach again when they are done",
                     rank);
}

// By the source going back, or by what the lane has, if it can continue from there.
static bool can_begin(const struct delivery *pool, const struct lane *lane, uint64_t rank,
                      uint64_t sequence) {
    const struct lane *source = lane_find(tap_of(pool)->source, rank);
    if (source_can_begin(pool, source, sequence))
        return true;
    return lane && sequence >= lane->base && sequence - lane->base <= lane->length &&
           source_can_begin(pool, source, window_end(lane));
}

static uint64_t first_start(const struct delivery *pool, uint64_t rank) {
    return join_usual_start(tap_of(pool)->source, rank);
}

static void leave(struct delivery *pool, struct lane *lane) {
    if (!lane->filling)
        return;
    delivery_leave(tap_of(pool)->source, &tap_lane_of(lane)->consumer);
    free(lane->filling);
    lane->filling = NULL;
}

// Takes batches from `sequence` on.
static int enter(struct delivery *pool, struct lane *lane, uint64_t sequence, uint64_t end,
                 struct error *error) {
    struct tap_lane *place = calloc(1, sizeof *place);
    if (!place)
        return error_set(error, -ENOMEM, "out of memory");
    place->consumer.operations = &place_operations;
    place->pool = pool;
    place->lane = lane;
    int err = join_at(tap_of(pool)->source, &place->consumer, lane->rank, sequence, end, 1, error);
    if (err)
        free(place);
    else
        lane->filling = place;
    return err;
}

static int join(struct delivery *pool, struct lane *lane, uint64_t sequence, uint64_t end,
                struct error *error) {
    struct delivery *source = tap_of(pool)->source;
    uint64_t next = window_end(lane);
    // A place that has come to its end is left behind when others move on.
    if (lane->filling && tap_lane_of(lane)->consumer.cursor == next && next >= source_lane(lane)->base) {
        lane_set_end(source, &tap_lane_of(lane)->consumer, end);
        return 0;
    }
    leave(pool, lane);
    if (!source_can_begin(pool, lane_find(source, lane->rank), next)) {
        window_clear(pool, lane);
        lane->base = next = sequence;
    }
    bool first = !source->consumer_count;
    int err = enter(pool, lane, next, end, error);
    // Where the consumer begins, not where what is left in the pool ends.
    if (!err && first)
        source->first_sequence = sequence;
    return err;
}

// It is less if the consumer that joined has come to its end already.
static void end_changed(struct delivery *pool, struct lane *lane) {
    if (lane->filling)
        lane_set_end(tap_of(pool)->source, &tap_lane_of(lane)->consumer, lane->end);
}

static void skipped(struct delivery *pool, struct lane *lane) {
    if (lane->filling && tap_lane_of(lane)->consumer.cursor < window_end(lane))
        lane_skip(tap_of(pool)->source, &tap_lane_of(lane)->consumer, window_end(lane));
}

// ---- Who holds up whom -------------------------------------------------------------------------------------

// Others on the source's lane, which is full, wait for a slot of it.
static bool source_is_short(const struct delivery *pool, const struct lane *lane) {
    return lane->filling && lane_full(tap_of(pool)->source, source_lane(lane)) &&
           lane_starves(source_lane(lane), &tap_lane_of(lane)->consumer);
}

// A full pool leaves batches in the source, in slots that others need.
static bool holds_up(const struct delivery *pool, const struct lane *lane) {
    return source_is_short(pool, lane) && tap_lane_of(lane)->consumer.cursor < window_end(source_lane(lane));
}

bool tap_stalls(const struct delivery *pool, const struct consumer *consumer) {
    const struct lane *lane = consumer->lane;
    const struct consumer *other;
    LIST_FOREACH(other, &lane->consumers, link)
        if (other != consumer && other->waiting_since_ns && !consumer_at_end(other) &&
            other->cursor >= lane->base + lane->ready)
            return true;
    return source_is_short(pool, lane); // the copies keep slots of the source
}

static const struct filler_operations operations = {
    .rank_option = "device_world_size",
    .here = "on that GPU",
    .filling = WAIT_COPY,
    .no_slot = WAIT_POOL,
    .waits_for = waits_for,
    .open = open_slots,
    .close = close_slots,
    .ready = ready,
    .choose = choose,
    .dispatch = dispatch,
    .done = done,
    .granted = granted,
    .left = left,
    .admits = admits,
    .can_begin = can_begin,
    .first_start = first_start,
    .join = join,
    .end_changed = end_changed,
    .skipped = skipped,
    .leave = leave,
    .holds_up = holds_up,
};

const struct filler *tap_open(struct tap *tap, struct delivery *source) {
    *tap = (struct tap){.filler = {&operations}, .source = source};
    return &tap->filler;
}
