#include "base/sizes.h"
#include "daemon/supervisor/delivery/window.h"
#include "order/partition.h"
#include "shm/ring_supervisor.h"

int delivery_open(struct delivery *delivery, struct ring *ring, const struct partition *partition,
                  uint32_t lane_limit) {
    uint32_t slot_count = ring->header->slot_count;
    *delivery = (struct delivery){.ring = ring, .partition = *partition, .run = 1, .lane_limit = lane_limit};
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
        if (delivery->source)
            tap_leave(delivery, lane);
        LIST_REMOVE(lane, link);
        free(lane);
    }
    uint32_t copies = delivery->source && delivery->slots ? delivery->ring->header->slot_count : 0;
    for (uint32_t slot = 0; slot < copies; slot++)
        if (delivery->slots[slot].phase == SLOT_FILLING)
            tap_copied(delivery, slot);
    free(delivery->slots);
    free(delivery->free_slots);
    *delivery = (struct delivery){0};
}

int delivery_release(struct delivery *delivery, struct consumer *consumer, uint32_t slot) {
    if (slot >= delivery->ring->header->slot_count || !consumer_holds(consumer, slot))
        return -EINVAL;
    consumer->held[slot / 64] &= ~(1ull << (slot % 64));
    consumer->held_count--;
    consumer->lagging_since_ns = 0;
    delivery->slots[slot].references--;
    slot_free_if_unused(delivery, slot);
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
        if (delivery->source)
            tap_copied(delivery, slot);
        delivery->ready_count++;
        delivery->completed++;
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
        if (filled == RING_SLOT_FAILED)
            ring_forget_failure(delivery->ring, slot); // nobody wants that batch any more
        delivery->abandoned--;
        if (delivery->source)
            tap_copied(delivery, slot);
        slot_free(delivery, slot);
    }
}

static struct lane *next_lane(const struct delivery *delivery) {
    struct lane *best = NULL, *lane;
    LIST_FOREACH(lane, &delivery->lanes, link) {
        uint64_t next = lane->base + lane->length;
        if (lane->slots_used >= lane_quota(delivery) || next >= lane->end ||
            (delivery->source && !tap_ready(lane)))
            continue;
        if (!best || next < best->base + best->length)
            best = lane;
    }
    return best;
}

static bool dispatch_to_loaders(struct delivery *delivery, struct lane *lane, uint32_t slot) {
    struct ring_batch name = {
        .run = delivery->run, .rank = lane->rank, .sequence = lane->base + lane->length};
    struct batch_place place;
    return partition_locate(&delivery->partition, name.rank, name.sequence, &place) == 0 &&
           ring_dispatch(delivery->ring, slot, &name, &place);
}

static bool dispatch(struct delivery *delivery, struct lane *lane, uint32_t slot) {
    uint64_t sequence = lane->base + lane->length;
    bool dispatched =
        delivery->source ? tap_dispatch(delivery, lane, slot) : dispatch_to_loaders(delivery, lane, slot);
    if (!dispatched)
        return false;
    delivery->free_count--;
    struct slot_state *state = &delivery->slots[slot];
    *state = (struct slot_state){.phase = SLOT_FILLING,
                                 .in_window = true,
                                 .lane = lane,
                                 .sequence = sequence,
                                 .source = state->source};
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
        int err = collect_ready(delivery, lane);
        if (err)
            return err;
    }
    collect_abandoned(delivery);
    return 0;
}

int delivery_pump(struct delivery *delivery) {
    struct lane *lane;
    uint32_t chunks = 0;
    bool without_samples = false;
    int err = collect_all(delivery);
    if (err)
        return err;
    while (delivery->free_count && (lane = next_lane(delivery))) {
        uint32_t slot = delivery->free_slots[delivery->free_count - 1];
        if (!dispatch(delivery, lane, slot))
            break;
        chunks += ring_slot(delivery->ring, slot)->chunk_count;
        without_samples |= ring_slot(delivery->ring, slot)->chunk_count == 0;
    }
    if (chunks && !delivery->source)
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
        if (delivery->source)
            delivery->slots[slot].holders |= 1ull << consumer->word;
        slots[count++] = slot;
    }
    if (count) {
        consumer->batches += count;
        window_trim(delivery, lane);
    }
    return count;
}

uint64_t delivery_oldest_held(const struct delivery *delivery, const struct consumer *consumer) {
    uint64_t oldest = UINT64_MAX;
    for (uint32_t slot = 0; slot < delivery->ring->header->slot_count; slot++)
        if (consumer_holds(consumer, slot))
            oldest = min_u64(oldest, delivery->slots[slot].sequence);
    return oldest;
}
