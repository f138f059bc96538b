// How a device pool's lanes get their batches from the delivery of the feed's ring, and who holds up whom across the
// two.
#include "base/error.h"
#include "daemon/supervisor/delivery/window.h"
#include "shm/ring_supervisor.h"

int tap_join(struct delivery *pool, struct lane *lane, uint64_t sequence, uint64_t end, struct error *error) {
    uint64_t next = lane->base + lane->length;
    // One that has come to its end is left behind when others go on.
    if (lane->tap.lane && lane->tap.cursor == next && next >= lane->tap.lane->base) {
        lane_set_end(pool->source, &lane->tap, end);
        return 0;
    }
    tap_leave(pool, lane);
    lane->tap.pool = pool;
    lane->tap.pool_lane = lane;
    struct lane *from = lane_find(pool->source, lane->rank);
    if (!lane_can_begin(from, next)) {
        while (lane->length)
            window_pop(pool, lane);
        lane->base = next = sequence;
    }
    bool first = !pool->source->consumer_count;
    int err = lane_join(pool->source, &lane->tap, lane->rank, next, end, 1, error);
    // Where the consumer begins, not where what is left in the pool ends.
    if (!err && first)
        pool->source->first_sequence = sequence;
    return err;
}

void tap_leave(struct delivery *pool, struct lane *lane) {
    if (lane->tap.lane)
        delivery_leave(pool->source, &lane->tap);
    lane->tap = (struct consumer){0};
}

void tap_follow(struct delivery *pool, struct lane *lane) {
    uint64_t next = lane->base + lane->length;
    if (lane->tap.lane && lane->tap.cursor < next)
        lane_skip(pool->source, &lane->tap, next);
}

bool tap_ready(const struct lane *lane) {
    const struct consumer *tap = &lane->tap;
    return tap->lane && !consumer_at_end(tap) && tap->cursor >= tap->lane->base &&
           tap->cursor - tap->lane->base < tap->lane->ready;
}

bool tap_dispatch(struct delivery *pool, struct lane *lane, uint32_t slot) {
    struct delivery *source = pool->source;
    struct slot_state *state = &pool->slots[slot];
    struct consumer *tap = &lane->tap;
    uint32_t from = window_at(source, tap->lane, (uint32_t)(tap->cursor - tap->lane->base));
    uint64_t sequence;
    if (!ring_dispatch_copy(pool->ring, slot, source->ring, from, state->holders))
        return false;
    state->holders = 0;
    state->source = from;
    // Kept by the copy from here on, and not by the tap.
    source->slots[from].copies++;
    delivery_grant(source, tap, &sequence, &from, 1);
    delivery_release(source, tap, from);
    return true;
}

void tap_copied(struct delivery *pool, uint32_t slot) {
    uint32_t from = pool->slots[slot].source;
    pool->source->slots[from].copies--;
    slot_free_if_unused(pool->source, from);
}

// ---- Who holds up whom -------------------------------------------------------------------------------------

bool lane_full(const struct delivery *delivery, const struct lane *lane) {
    return lane->slots_used >= lane_quota(delivery) || !delivery->free_count;
}

static bool lane_starves(const struct lane *lane);

// It wants the batch behind the last one of the window.
static bool consumer_starves(const struct lane *lane, const struct consumer *consumer) {
    if (consumer_at_end(consumer) || consumer->cursor != lane->base + lane->length)
        return false;
    if (consumer->pool_lane)
        return !lane_full(consumer->pool, consumer->pool_lane) && lane_starves(consumer->pool_lane);
    return consumer->waiting_since_ns != 0;
}

static bool lane_starves(const struct lane *lane) {
    const struct consumer *consumer;
    LIST_FOREACH(consumer, &lane->consumers, link)
        if (consumer_starves(lane, consumer))
            return true;
    return false;
}

static bool lane_blocked(const struct delivery *delivery, const struct lane *lane) {
    return lane_full(delivery, lane) && lane_starves(lane);
}

bool delivery_holds_up(const struct delivery *delivery, const struct consumer *consumer) {
    const struct lane *lane = consumer->lane;
    if (lane_blocked(delivery, lane))
        return true;
    // A full pool leaves batches in the ring, whose slots others of the ring wait for.
    return delivery->source && lane_full(delivery, lane) && lane->tap.lane &&
           lane->tap.cursor < lane->tap.lane->base + lane->tap.lane->length &&
           lane_blocked(delivery->source, lane->tap.lane);
}

bool delivery_stalls(const struct delivery *pool, const struct consumer *consumer) {
    const struct lane *lane = consumer->lane, *source = lane->tap.lane;
    const struct consumer *other;
    LIST_FOREACH(other, &lane->consumers, link)
        if (other != consumer && other->waiting_since_ns && !consumer_at_end(other) &&
            other->cursor >= lane->base + lane->ready)
            return true;
    // The copies keep slots of the ring, whose consumers may be out of them.
    if (!source || !lane_full(pool->source, source))
        return false;
    LIST_FOREACH(other, &source->consumers, link)
        if (other != &lane->tap && consumer_starves(source, other))
            return true;
    return false;
}
