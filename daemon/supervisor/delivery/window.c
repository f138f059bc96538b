#include "daemon/supervisor/delivery/window.h"
#include "base/states.h"
#include "shm/ring_supervisor.h"

// ---- Slots -------------------------------------------------------------------------------------------------

static const struct state phases[] = {
    [SLOT_FREE] = {"free", STATE(SLOT_FILLING)},
    // Free without having been READY: nobody wants the batch any more.
    [SLOT_FILLING] = {"filling", STATE(SLOT_READY) | STATE(SLOT_FREE)},
    [SLOT_READY] = {"ready", STATE(SLOT_FREE)},
};
static const struct state_table phase_table = STATE_TABLE("slot", phases);

static enum slot_phase enter(const struct slot_state *state, enum slot_phase phase) {
    return state_next(&phase_table, state->phase, phase);
}

void slot_free(struct delivery *delivery, uint32_t slot) {
    struct slot_state *state = &delivery->slots[slot];
    if (state->phase == SLOT_READY)
        delivery->ready_count--;
    if (state->lane)
        state->lane->slots_used--;
    ring_slot_free(delivery->ring, slot);
    *state = (struct slot_state){.phase = enter(state, SLOT_FREE)};
    // The slot used last is given out next: its lines are still in the cache.
    delivery->free_slots[delivery->free_count++] = slot;
}

void slot_free_if_unused(struct delivery *delivery, uint32_t slot) {
    const struct slot_state *state = &delivery->slots[slot];
    if (!state->references && !state->copies && !state->in_window)
        slot_free(delivery, slot);
}

// ---- Windows -----------------------------------------------------------------------------------------------

uint32_t window_at(const struct delivery *delivery, const struct lane *lane, uint32_t index) {
    return lane->window[(lane->window_start + index) % delivery->ring->header->slot_count];
}

void window_push(struct delivery *delivery, struct lane *lane) {
    uint32_t slot = delivery->free_slots[--delivery->free_count];
    struct slot_state *state = &delivery->slots[slot];
    uint64_t sequence = window_end(lane);
    *state = (struct slot_state){
        .phase = enter(state, SLOT_FILLING), .in_window = true, .lane = lane, .sequence = sequence};
    const struct consumer *consumer;
    LIST_FOREACH(consumer, &lane->consumers, link)
        state->references += consumer_is_due(consumer, sequence);
    lane->window[(lane->window_start + lane->length) % delivery->ring->header->slot_count] = slot;
    lane->length++;
    lane->slots_used++;
}

static void stay(struct delivery *delivery, struct slot_state *state) {
    delivery->moving -= state->moves;
    state->moves = false;
}

void window_complete(struct delivery *delivery, struct lane *lane) {
    struct slot_state *state = &delivery->slots[window_at(delivery, lane, lane->ready)];
    state->phase = enter(state, SLOT_READY);
    stay(delivery, state);
    delivery->ready_count++;
    delivery->completed++;
    lane->ready++;
}

// It is still being written: it cannot be given out again before that is over.
static void abandon(struct delivery *delivery, struct slot_state *state) {
    stay(delivery, state);
    state->in_window = false;
    state->lane->slots_used--;
    state->lane = NULL;
    delivery->abandoned++;
}

void window_pop(struct delivery *delivery, struct lane *lane) {
    uint32_t slot = window_at(delivery, lane, 0);
    struct slot_state *state = &delivery->slots[slot];
    lane->window_start = (lane->window_start + 1) % delivery->ring->header->slot_count;
    lane->base++;
    lane->length--;
    if (lane->ready)
        lane->ready--;
    if (state->phase == SLOT_READY) {
        state->in_window = false;
        slot_free_if_unused(delivery, slot);
        return;
    }
    abandon(delivery, state);
}

void window_clear(struct delivery *delivery, struct lane *lane) {
    while (lane->length)
        window_pop(delivery, lane);
}

void window_put_back(const struct delivery *delivery, struct lane *lane, uint32_t slot) {
    uint32_t slot_count = delivery->ring->header->slot_count;
    lane->window_start = (lane->window_start + slot_count - 1) % slot_count;
    lane->window[lane->window_start] = slot;
    delivery->slots[slot].in_window = true;
    lane->base--;
    lane->length++;
    lane->ready++;
}

uint32_t window_drop_last(struct delivery *delivery, struct lane *lane) {
    uint32_t slot = window_at(delivery, lane, --lane->length);
    delivery->slots[slot].references = 0; // counted again when it is dispatched again
    abandon(delivery, &delivery->slots[slot]);
    return slot;
}

void window_move(struct delivery *delivery, uint32_t from) {
    uint32_t to = delivery->free_slots[--delivery->free_count];
    struct slot_state *old = &delivery->slots[from];
    struct lane *lane = old->lane;
    uint64_t place = lane->window_start + (old->sequence - lane->base);
    stay(delivery, old);
    (void)enter(&delivery->slots[to], SLOT_FILLING);
    delivery->slots[to] = *old;
    lane->window[place % delivery->ring->header->slot_count] = to;
    lane->slots_used++;
    old->references = 0;
    abandon(delivery, old);
}
