#include "daemon/supervisor/delivery/abandoned.h"

#include "daemon/supervisor/delivery/filler.h"
#include "daemon/supervisor/delivery/lane.h"
#include "daemon/supervisor/delivery/window.h"
#include "shm/ring_supervisor.h"

static uint32_t count_slots(const struct delivery *delivery) {
    return delivery->slots ? delivery->ring->header->slot_count : 0; // none before it is open
}

static bool is_abandoned(const struct slot_state *state) {
    return state->phase == SLOT_FILLING && !state->lane;
}

// Not before every chunk is done, also if one has failed: the others are still being written.
static void collect(struct delivery *delivery, uint32_t slot) {
    ring_forget_failure(delivery->ring,
                        slot); // its batch is no longer wanted; others have failures to report
    if (ring_slot_busy(delivery->ring, slot))
        return;
    ring_forget_failure(delivery->ring, slot); // of a chunk that ended between the two
    delivery->abandoned--;
    filler_done(delivery, slot);
    slot_free(delivery, slot);
}

void abandoned_collect(struct delivery *delivery) {
    for (uint32_t slot = 0; delivery->abandoned && slot < count_slots(delivery); slot++)
        if (is_abandoned(&delivery->slots[slot]))
            collect(delivery, slot);
}

// ---- Loaders that hang ---------------------------------------------------------------------------------------

static bool is_claimed_by(const struct delivery *delivery, uint32_t slot, uint32_t owner) {
    return delivery->slots[slot].phase == SLOT_FILLING && ring_slot_claimed_by(delivery->ring, slot, owner);
}

// For a lane: not only because a chunk of it is still being written.
static bool is_read_by(const struct delivery *delivery, uint32_t slot, uint32_t owner) {
    return delivery->slots[slot].lane && is_claimed_by(delivery, slot, owner);
}

static bool is_awaited(const struct slot_state *state) {
    const struct consumer *consumer;
    LIST_FOREACH(consumer, &state->lane->consumers, link)
        if (consumer_is_due(consumer, state->sequence) && consumer_waits(consumer))
            return true;
    return false;
}

// It could be read into a slot that has yet to be allocated.
static bool may_move_later(const struct delivery *delivery, const struct slot_state *state) {
    return state->moves && slots_are_coming(delivery);
}

void abandoned_excuse(struct delivery *delivery, uint64_t now) {
    for (uint32_t slot = 0; delivery->has_hung && slot < count_slots(delivery); slot++) {
        struct slot_state *state = &delivery->slots[slot];
        if (state->phase == SLOT_FILLING && state->lane && state->hung_ns &&
            (!is_awaited(state) || may_move_later(delivery, state)))
            state->hung_ns = state->moves_ns = now;
    }
}

void abandoned_stood_still(struct delivery *delivery, uint64_t from_ns, uint64_t to_ns) {
    const uint64_t gap_ns = to_ns - from_ns;
    for (uint32_t slot = 0; delivery->has_hung && slot < count_slots(delivery); slot++) {
        struct slot_state *state = &delivery->slots[slot];
        if (state->hung_ns)
            state->hung_ns = min_u64(state->hung_ns + gap_ns, to_ns);
        if (state->moves)
            state->moves_ns = min_u64(state->moves_ns + gap_ns, to_ns);
    }
}

void abandoned_note(struct delivery *delivery, uint32_t owner, uint64_t now, uint64_t since_ns) {
    delivery->has_hung = true;
    for (uint32_t slot = 0; slot < count_slots(delivery); slot++) {
        struct slot_state *state = &delivery->slots[slot];
        if (state->hung_ns || !is_claimed_by(delivery, slot, owner))
            continue;
        state->hung_ns = now;
        state->hung_since_ns = since_ns;
    }
}

uint32_t abandoned_leave(struct delivery *delivery, uint32_t owner, uint64_t now, uint64_t since_ns) {
    uint32_t left = 0;
    abandoned_note(delivery, owner, now, since_ns);
    for (uint32_t slot = 0; slot < count_slots(delivery); slot++) {
        struct slot_state *state = &delivery->slots[slot];
        if (state->moves || !is_read_by(delivery, slot, owner))
            continue;
        state->moves = true;
        state->moves_ns = now;
        left++;
    }
    delivery->moving += left;
    if (count_slots(delivery))
        ring_recover_signals(delivery->ring, owner);
    return left;
}

// If need be, a batch that comes later gives up its slot: it was not granted to anybody, and will be read again.
static bool make_room(struct delivery *delivery, const struct slot_state *state) {
    struct lane *lane = state->lane;
    if (!delivery->free_count && window_end(lane) - 1 > state->sequence) {
        uint32_t last = window_drop_last(delivery, lane);
        ring_slot_withdraw(delivery->ring, last);
        collect(delivery, last);
    }
    return delivery->free_count > 0;
}

void abandoned_move(struct delivery *delivery) {
    for (uint32_t slot = 0; delivery->moving && slot < count_slots(delivery); slot++) {
        const struct slot_state *state = &delivery->slots[slot];
        if (!state->moves || !make_room(delivery, state) ||
            !filler_choose(delivery, state->lane, state->sequence) ||
            !filler_of(delivery)->dispatch_again(delivery, state->lane, state->sequence,
                                                 window_next_slot(delivery)))
            continue;
        window_move(delivery, slot);
        ring_slot_withdraw(delivery->ring, slot);
    }
}

void abandoned_withdraw(struct delivery *delivery) {
    for (uint32_t slot = 0; delivery->abandoned && slot < count_slots(delivery); slot++)
        if (is_abandoned(&delivery->slots[slot]))
            ring_slot_withdraw(delivery->ring, slot);
}

uint64_t abandoned_find(const struct delivery *delivery, const struct hung_batch *wanted) {
    for (uint32_t slot = 0; slot < count_slots(delivery); slot++) {
        const struct slot_state *state = &delivery->slots[slot];
        uint64_t noticed_ns = wanted->moves ? state->moves_ns : state->hung_ns;
        if (state->phase == SLOT_FILLING && state->lane && state->hung_ns &&
            wanted->now >= noticed_ns + wanted->ago_ns && (state->moves || !wanted->moves) &&
            (!wanted->owner || is_read_by(delivery, slot, wanted->owner)))
            return state->hung_since_ns;
    }
    return 0;
}

static bool is_filled(const struct lane *lane) {
    return lane->length > lane->ready;
}

// Somebody will release a batch, or be detached.
static bool is_in_use(const struct delivery *delivery, const struct lane *lane) {
    const struct consumer *consumer;
    LIST_FOREACH(consumer, &lane->consumers, link)
        if (consumer->held_count && !consumer->waiting_since_ns)
            return true;
    for (uint32_t slot = 0; slot < count_slots(delivery); slot++)
        if (delivery->slots[slot].lane == lane && delivery->slots[slot].copies)
            return true;
    return false;
}

static uint64_t oldest_left(const struct delivery *delivery) {
    uint64_t oldest = UINT64_MAX;
    for (uint32_t slot = 0; slot < count_slots(delivery); slot++)
        if (is_abandoned(&delivery->slots[slot]) && delivery->slots[slot].hung_since_ns)
            oldest = min_u64(oldest, delivery->slots[slot].hung_since_ns);
    return oldest == UINT64_MAX ? 0 : oldest;
}

uint64_t abandoned_starves(const struct delivery *delivery) {
    const struct lane *lane;
    if (!delivery->abandoned || delivery->free_count || slots_are_coming(delivery))
        return 0;
    LIST_FOREACH(lane, &delivery->lanes, link)
        if (lane->slots_used < lane_quota(delivery) && lane_starves(lane, NULL) && !is_filled(lane) &&
            !is_in_use(delivery, lane))
            return oldest_left(delivery);
    return 0;
}
