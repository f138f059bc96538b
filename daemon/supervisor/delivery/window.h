// Slots, and the windows of lanes: which slot holds which batch. Knows nothing of fillers, nor of how consumers come
// and go.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_WINDOW_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_WINDOW_H

#include "daemon/supervisor/delivery/types.h"

void slot_free(struct delivery *delivery, uint32_t slot);
void slot_free_if_unused(struct delivery *delivery, uint32_t slot);

// The slot of batch lane->base + index.
uint32_t window_at(const struct delivery *delivery, const struct lane *lane, uint32_t index);

// Appends the next batch: it is being filled into the free slot that is used next.
void window_push(struct delivery *delivery, struct lane *lane);

// The slot that window_push will use; there must be a free one.
static inline uint32_t window_next_slot(const struct delivery *delivery) {
    return delivery->free_slots[delivery->free_count - 1];
}

// The first batch that is not complete has become so.
void window_complete(struct delivery *delivery, struct lane *lane);

// Removes the first batch: everybody has been granted it, or nobody wants it any more.
void window_pop(struct delivery *delivery, struct lane *lane);
void window_clear(struct delivery *delivery, struct lane *lane);

// Removes the last batch, which is not complete, so that it is dispatched again; returns its slot.
uint32_t window_drop_last(struct delivery *delivery, struct lane *lane);

// A batch of the window that is not complete is being filled into the free slot that is used next instead.
void window_move(struct delivery *delivery, uint32_t from);

// Puts a slot that holds batch lane->base - 1 back at the front.
void window_put_back(const struct delivery *delivery, struct lane *lane, uint32_t slot);

// The batch after the last one of the window, which is dispatched next.
static inline uint64_t window_end(const struct lane *lane) {
    return lane->base + lane->length;
}

#endif
