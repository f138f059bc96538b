#include "daemon/supervisor/delivery/window.h"
#include "base/sizes.h"
#include "shm/ring_supervisor.h"

void slot_free(struct delivery *delivery, uint32_t slot) {
    struct slot_state *state = &delivery->slots[slot];
    if (state->phase == SLOT_READY)
        delivery->ready_count--;
    if (state->lane)
        state->lane->slots_used--;
    ring_slot_free(delivery->ring, slot);
    *state = (struct slot_state){.phase = SLOT_FREE, .holders = state->holders};
    // The slot used last is given out next: its lines are still in the cache.
    delivery->free_slots[delivery->free_count++] = slot;
}

void slot_free_if_unused(struct delivery *delivery, uint32_t slot) {
    const struct slot_state *state = &delivery->slots[slot];
    if (!state->references && !state->copies && !state->in_window)
        slot_free(delivery, slot);
}

uint32_t window_at(const struct delivery *delivery, const struct lane *lane, uint32_t index) {
    return lane->window[(lane->window_start + index) % delivery->ring->header->slot_count];
}

void window_pop(struct delivery *delivery, struct lane *lane) {
    uint32_t slot = window_at(delivery, lane, 0);
    struct slot_state *state = &delivery->slots[slot];
    lane->window_start = (lane->window_start + 1) % delivery->ring->header->slot_count;
    lane->base++;
    lane->length--;
    if (lane->ready)
        lane->ready--;
    state->in_window = false;
    if (state->phase == SLOT_READY) {
        slot_free_if_unused(delivery, slot);
        return;
    }
    // Loaders are at it: it cannot be given out again before they are done.
    state->lane = NULL;
    lane->slots_used--;
    delivery->abandoned++;
}

void window_trim(struct delivery *delivery, struct lane *lane) {
    const struct consumer *consumer;
    uint64_t slowest = UINT64_MAX;
    if (LIST_EMPTY(&lane->consumers))
        return; // stays warm for whoever comes next
    LIST_FOREACH(consumer, &lane->consumers, link)
        if (!consumer_at_end(consumer))
            slowest = min_u64(slowest, consumer->cursor);
    while (lane->length && lane->base < slowest)
        window_pop(delivery, lane);
    // Nobody is due what lies between, when the one who is left came with a position further on.
    if (lane->base < slowest && slowest != UINT64_MAX) {
        lane->base = slowest;
        if (delivery->source)
            tap_follow(delivery, lane);
    }
}
