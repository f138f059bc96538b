#include "daemon/supervisor/delivery/delivery.h"
#include "base/sizes.h"
#include "daemon/supervisor/delivery/abandoned.h"
#include "daemon/supervisor/delivery/filler.h"
#include "daemon/supervisor/delivery/lane.h"
#include "daemon/supervisor/delivery/window.h"
#include "shm/ring_supervisor.h"

// Bytes of a ring's control part that one pump writes: a few milliseconds when the pages are new to this process.
#define WRITTEN_AT_ONCE (8u << 20)
// Samples, for the same reason.
#define SUMMED_AT_ONCE 32768u
// A batch counts as so many at least: of a mix with many sources, it may take 0.5 ms to find its first position.
#define SUMMED_LEAST 4096u

int delivery_open(struct delivery *delivery, struct ring *ring, const struct partition *partition,
                  uint32_t lane_limit, const struct filler *filler, uint32_t slots) {
    uint32_t slot_count = ring->header->slot_count;
    *delivery = (struct delivery){
        .ring = ring, .partition = *partition, .run = 1, .lane_limit = lane_limit, .filler = filler};
    LIST_INIT(&delivery->lanes);
    delivery->slots = calloc(slot_count, sizeof *delivery->slots);
    delivery->free_slots = calloc(slot_count, sizeof *delivery->free_slots);
    if (!delivery->slots || !delivery->free_slots || filler_open(delivery) < 0) {
        delivery_close(delivery);
        return -ENOMEM;
    }
    delivery_add_slots(delivery, slots);
    return 0;
}

void delivery_add_slots(struct delivery *delivery, uint32_t count) {
    // Popped from the end, so that slot 0 is used first.
    for (uint32_t slot = delivery->slot_count + count; slot-- > delivery->slot_count;)
        delivery->free_slots[delivery->free_count++] = slot;
    delivery->slot_count += count;
}

void delivery_close(struct delivery *delivery) {
    struct lane *lane;
    if (!delivery->filler)
        return; // it was never opened
    while ((lane = LIST_FIRST(&delivery->lanes))) {
        filler_leave(delivery, lane);
        LIST_REMOVE(lane, link);
        free(lane);
    }
    for (uint32_t slot = 0; delivery->slots && slot < delivery->ring->header->slot_count; slot++)
        if (delivery->slots[slot].phase == SLOT_FILLING)
            filler_done(delivery, slot);
    filler_close(delivery);
    free(delivery->slots);
    free(delivery->free_slots);
    *delivery = (struct delivery){0};
}

void delivery_restart(struct delivery *delivery, const struct partition *partition) {
    struct lane *lane;
    while ((lane = LIST_FIRST(&delivery->lanes)))
        lane_remove(delivery, lane);
    delivery->partition = *partition;
    delivery->run++;
}

// ---- Filling -----------------------------------------------------------------------------------------------

// Number `index` of the lane's window lacks samples.
static int mend(struct delivery *delivery, struct lane *lane, uint32_t index) {
    delivery->lacks = true;
    if (!delivery->mends_left) {
        delivery->behind = true;
        return 0;
    }
    int done = filler_mend(delivery, lane, lane->base + index, window_at(delivery, lane, index));
    delivery->mends_left -= done > 0;
    return done < 0 ? done : 0;
}

// Batches that come later are mended while the first one is being filled.
static int mend_ahead(struct delivery *delivery, struct lane *lane) {
    int err = 0;
    for (uint32_t i = lane->ready + 1; delivery->lacks && i < lane->length && !err; i++)
        if (ring_slot_poll(delivery->ring, window_at(delivery, lane, i)) == RING_SLOT_LACKING)
            err = mend(delivery, lane, i);
    return err;
}

static int collect_ready(struct delivery *delivery, struct lane *lane) {
    while (lane->ready < lane->length) {
        uint32_t slot = window_at(delivery, lane, lane->ready);
        enum ring_slot_state state = ring_slot_poll(delivery->ring, slot);
        int err = state == RING_SLOT_LACKING ? mend(delivery, lane, lane->ready) : 0;
        if (err)
            return err;
        if (state == RING_SLOT_FAILED)
            return -EIO;
        if (state == RING_SLOT_BROKEN)
            return -EBADMSG;
        if (state == RING_SLOT_FILLING || state == RING_SLOT_LACKING)
            return mend_ahead(delivery, lane);
        window_complete(delivery, lane);
        filler_done(delivery, slot);
    }
    return 0;
}

static int collect_all(struct delivery *delivery) {
    struct lane *lane;
    LIST_FOREACH(lane, &delivery->lanes, link) {
        int err = collect_ready(delivery, lane);
        if (err)
            return err;
    }
    abandoned_collect(delivery);
    return 0;
}

// The lane that is furthest behind, of those that can have a slot.
static struct lane *next_lane(const struct delivery *delivery) {
    struct lane *best = NULL, *lane;
    LIST_FOREACH(lane, &delivery->lanes, link) {
        if (lane->slots_used >= lane_quota(delivery) || window_end(lane) >= lane->end ||
            !filler_ready(delivery, lane))
            continue;
        if (!best || window_end(lane) < window_end(best))
            best = lane;
    }
    return best;
}

// How many slots one pump gives to the filler: each has its words in the ring's control part written, and, with ragged
// fields, the sizes of its samples summed up.
static uint32_t slots_per_pump(const struct delivery *delivery) {
    const struct ring_header *header = delivery->ring->header;
    if (header->ragged_count)
        return 1 + SUMMED_AT_ONCE / (uint32_t)max_u64(header->batch_size, SUMMED_LEAST);
    return 1 + (uint32_t)(WRITTEN_AT_ONCE / (8ull * (header->skip_words + header->chunks_per_slot)));
}

int delivery_pump(struct delivery *delivery) {
    struct lane *lane;
    uint32_t chunks = 0, left = slots_per_pump(delivery);
    bool without_samples = false;
    delivery->behind = false;
    delivery->mends_left = left;
    int err = collect_all(delivery);
    if (err)
        return err;
    abandoned_move(delivery);
    // What is left to be moved, for lack of slots, comes first.
    while (delivery->free_count && !delivery->moving && (lane = next_lane(delivery))) {
        if (left-- == 0) {
            delivery->behind = true;
            break;
        }
        if (!filler_choose(delivery, lane, window_end(lane)))
            break;
        uint32_t slot = window_next_slot(delivery);
        if (!filler_of(delivery)->dispatch(delivery, lane, slot))
            break;
        window_push(delivery, lane);
        uint32_t dispatched = ring_dispatched(delivery->ring, slot)->chunk_count;
        chunks += dispatched;
        without_samples |= dispatched == 0;
    }
    if (chunks)
        filler_wake(delivery, chunks);
    // Batches without samples are complete already, and nobody will report them.
    return without_samples ? collect_all(delivery) : 0;
}

// ---- Handing out -------------------------------------------------------------------------------------------

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
        filler_granted(delivery, consumer, slot);
        slots[count++] = slot;
    }
    if (count) {
        consumer->batches += count;
        lane_trim(delivery, lane);
    }
    return count;
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

bool delivery_is_filling(const struct delivery *delivery) {
    const struct lane *lane;
    LIST_FOREACH(lane, &delivery->lanes, link)
        if (lane->ready < lane->length)
            return true;
    return delivery->abandoned > 0;
}

uint64_t delivery_oldest_held(const struct delivery *delivery, const struct consumer *consumer) {
    uint64_t oldest = UINT64_MAX;
    for (uint32_t slot = 0; slot < delivery->ring->header->slot_count; slot++)
        if (consumer_holds(consumer, slot))
            oldest = min_u64(oldest, delivery->slots[slot].sequence);
    return oldest;
}

bool delivery_holds_up(const struct delivery *delivery, const struct consumer *consumer) {
    const struct lane *lane = consumer->lane;
    return lane_full(delivery, lane) && (lane_starves(lane, NULL) || filler_holds_up(delivery, lane));
}
