#include <inttypes.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/supervisor/delivery/filler.h"
#include "daemon/supervisor/delivery/lane.h"
#include "daemon/supervisor/delivery/window.h"

struct lane *lane_find(const struct delivery *delivery, uint64_t rank) {
    struct lane *lane;
    LIST_FOREACH(lane, &delivery->lanes, link)
        if (lane->rank == rank)
            return lane;
    return NULL;
}

void lane_remove(struct delivery *delivery, struct lane *lane) {
    filler_leave(delivery, lane);
    window_clear(delivery, lane);
    // A slot that is still being copied from stays until that is done.
    for (uint32_t slot = 0; slot < delivery->ring->header->slot_count; slot++)
        if (delivery->slots[slot].lane == lane)
            delivery->slots[slot].lane = NULL;
    LIST_REMOVE(lane, link);
    delivery->lane_count--;
    free(lane);
}

// A lane that is only kept warm makes way for a rank that somebody wants.
static void make_room(struct delivery *delivery) {
    struct lane *lane;
    if (delivery->lane_count < delivery->lane_limit)
        return;
    LIST_FOREACH(lane, &delivery->lanes, link)
        if (lane_is_deserted(lane)) {
            lane_remove(delivery, lane);
            return;
        }
}

int lane_get(struct delivery *delivery, uint64_t rank, struct lane **lane, struct error *error) {
    const struct filler_operations *filler = filler_of(delivery);
    *lane = lane_find(delivery, rank);
    if (*lane)
        return 0;
    make_room(delivery);
    if (delivery->lane_count >= delivery->lane_limit)
        return error_set(error, -ENOSPC,
                         "the feed was made for %" PRIu32 " ranks %s, and rank %" PRIu64
                         " would be one more; set %s to the number of ranks there",
                         delivery->lane_limit, filler->here, rank, filler->rank_option);
    uint32_t slot_count = delivery->ring->header->slot_count;
    struct lane *made = calloc(1, sizeof *made + slot_count * sizeof made->window[0]);
    if (!made)
        return error_set(error, -ENOMEM, "out of memory");
    made->rank = rank;
    made->base = delivery->first_sequence;
    LIST_INIT(&made->consumers);
    LIST_INSERT_HEAD(&delivery->lanes, made, link);
    delivery->lane_count++;
    *lane = made;
    return 0;
}

// ---- Where it is -------------------------------------------------------------------------------------------

void lane_seek(struct delivery *delivery, struct lane *lane, uint64_t sequence) {
    while (lane->length && lane->base != sequence)
        window_pop(delivery, lane);
    lane->base = sequence;
}

void lane_rewind(struct delivery *delivery, struct lane *lane, uint64_t sequence) {
    const struct consumer *consumer;
    // Consumers that wait for these batches are counted again when they are dispatched again.
    LIST_FOREACH(consumer, &lane->consumers, link)
        lane_unclaim(delivery, lane, consumer);
    window_clear(delivery, lane);
    lane->base = sequence;
}

void lane_trim(struct delivery *delivery, struct lane *lane) {
    const struct consumer *consumer;
    uint64_t slowest = UINT64_MAX;
    if (lane_is_deserted(lane))
        return; // stays warm for the next consumer
    LIST_FOREACH(consumer, &lane->consumers, link)
        if (!consumer_at_end(consumer))
            slowest = min_u64(slowest, consumer->cursor);
    while (lane->length && lane->base < slowest)
        window_pop(delivery, lane);
    // Nobody is due what lies between if the consumer that is left came with a position further ahead.
    if (lane->base < slowest && slowest != UINT64_MAX) {
        lane->base = slowest;
        filler_skipped(delivery, lane);
    }
}

bool lane_untouched(const struct lane *lane) {
    const struct consumer *consumer;
    LIST_FOREACH(consumer, &lane->consumers, link)
        if (consumer->operations ? !consumer->operations->untouched(consumer) : consumer->batches > 0)
            return false;
    return true;
}

uint64_t lane_start(const struct lane *lane) {
    const struct consumer *consumer;
    uint64_t start = lane->base;
    LIST_FOREACH(consumer, &lane->consumers, link)
        if (consumer->operations)
            start = min_u64(start, consumer->operations->start(consumer));
    return start;
}

bool lane_can_begin(const struct lane *lane, uint64_t sequence) {
    return lane_is_deserted(lane) || sequence >= lane->base || lane_untouched(lane);
}

// ---- What its consumers want -------------------------------------------------------------------------------

static void count_references(struct delivery *delivery, const struct lane *lane,
                             const struct consumer *consumer, int change) {
    for (uint32_t i = 0; i < lane->length; i++)
        if (consumer_is_due(consumer, lane->base + i))
            delivery->slots[window_at(delivery, lane, i)].references += (uint32_t)change;
}

void lane_unclaim(struct delivery *delivery, struct lane *lane, const struct consumer *consumer) {
    count_references(delivery, lane, consumer, -1);
}

void lane_follow_end(struct delivery *delivery, struct lane *lane) {
    const struct consumer *consumer;
    lane->end = 0;
    LIST_FOREACH(consumer, &lane->consumers, link)
        if (!consumer_at_end(consumer))
            lane->end = max_u64(lane->end, consumer->end);
    filler_end_changed(delivery, lane);
}

void lane_set_end(struct delivery *delivery, struct consumer *consumer, uint64_t end) {
    struct lane *lane = consumer->lane;
    count_references(delivery, lane, consumer, -1);
    consumer->end = max_u64(consumer->cursor, end);
    count_references(delivery, lane, consumer, 1);
    lane_follow_end(delivery, lane);
    lane_trim(delivery, lane); // it may begin further ahead than what is left for the others
}

void lane_skip(struct delivery *delivery, struct consumer *consumer, uint64_t sequence) {
    struct lane *lane = consumer->lane;
    count_references(delivery, lane, consumer, -1);
    consumer->cursor = sequence;
    consumer->end = max_u64(consumer->cursor, consumer->end);
    count_references(delivery, lane, consumer, 1);
    lane_trim(delivery, lane);
}

// ---- Whether it is stuck -----------------------------------------------------------------------------------

bool lane_full(const struct delivery *delivery, const struct lane *lane) {
    return lane->slots_used >= lane_quota(delivery) || !delivery->free_count;
}

static bool consumer_starves(const struct lane *lane, const struct consumer *consumer) {
    return !consumer_at_end(consumer) && consumer->cursor >= window_end(lane) && consumer_waits(consumer);
}

bool lane_starves(const struct lane *lane, const struct consumer *except) {
    const struct consumer *consumer;
    LIST_FOREACH(consumer, &lane->consumers, link)
        if (consumer != except && consumer_starves(lane, consumer))
            return true;
    return false;
}
