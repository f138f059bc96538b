// What must hold for the bookkeeping of a supervisor and of its feeds between two turns, whatever clients and loaders
// have done. Whoever includes this defines WORLD_MUST(condition).
#ifndef FEEDD_TESTS_WORLD_CHECK_H
#define FEEDD_TESTS_WORLD_CHECK_H

#include "daemon/supervisor/delivery/delivery.h"
#include "daemon/supervisor/feeds/pool.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "shm/ring_supervisor.h"

static inline void check_lane(const struct delivery *delivery, const struct lane *lane) {
    uint32_t slots = delivery->ring->header->slot_count, used = 0;
    WORLD_MUST(lane->length <= slots && lane->ready <= lane->length);
    for (uint32_t i = 0; i < lane->length; i++) {
        const struct slot_state *state = &delivery->slots[lane->window[(lane->window_start + i) % slots]];
        WORLD_MUST(state->in_window && state->lane == lane && state->sequence == lane->base + i);
        WORLD_MUST(state->phase == (i < lane->ready ? SLOT_READY : SLOT_FILLING));
    }
    for (uint32_t slot = 0; slot < slots; slot++)
        used += delivery->slots[slot].lane == lane;
    WORLD_MUST(used == lane->slots_used);
}

static inline void check_consumer(const struct delivery *delivery, const struct consumer *consumer) {
    uint32_t held = 0;
    for (uint32_t slot = 0; slot < delivery->ring->header->slot_count; slot++) {
        if (!consumer_holds(consumer, slot))
            continue;
        held++;
        WORLD_MUST(delivery->slots[slot].phase == SLOT_READY);
    }
    WORLD_MUST(held == consumer->held_count && held <= consumer->prefetch);
    WORLD_MUST(consumer->cursor <= consumer->end);
}

// Consumers that hold the slot, and those that have yet to be granted it.
static inline uint32_t count_due(const struct delivery *delivery, uint32_t slot) {
    const struct slot_state *state = &delivery->slots[slot];
    const struct lane *lane;
    const struct consumer *consumer;
    uint32_t due = 0;
    LIST_FOREACH(lane, &delivery->lanes, link)
        LIST_FOREACH(consumer, &lane->consumers, link) {
            due += consumer_holds(consumer, slot);
            due += state->in_window && lane == state->lane && consumer_is_due(consumer, state->sequence);
        }
    return due;
}

static inline void check_slots(const struct delivery *delivery) {
    uint32_t ready = 0, unused = 0, abandoned = 0, moving = 0;
    for (uint32_t slot = 0; slot < delivery->ring->header->slot_count; slot++) {
        const struct slot_state *state = &delivery->slots[slot];
        WORLD_MUST(state->references == count_due(delivery, slot));
        WORLD_MUST(state->phase != SLOT_FREE || (!state->lane && !ring_slot_busy(delivery->ring, slot)));
        ready += state->phase == SLOT_READY;
        unused += state->phase == SLOT_FREE && slot < delivery->slot_count;
        WORLD_MUST(state->phase == SLOT_FREE || slot < delivery->slot_count);
        abandoned += state->phase == SLOT_FILLING && !state->lane;
        moving += state->moves;
    }
    WORLD_MUST(ready == delivery->ready_count && unused == delivery->free_count);
    WORLD_MUST(abandoned == delivery->abandoned && moving == delivery->moving);
}

static inline void check_delivery(const struct delivery *delivery) {
    const struct lane *lane;
    const struct consumer *consumer;
    uint32_t lanes = 0, consumers = 0;
    LIST_FOREACH(lane, &delivery->lanes, link) {
        check_lane(delivery, lane);
        LIST_FOREACH(consumer, &lane->consumers, link) {
            check_consumer(delivery, consumer);
            consumers++;
        }
        lanes++;
    }
    WORLD_MUST(lanes == delivery->lane_count && consumers == delivery->consumer_count);
    check_slots(delivery);
}

// Copies keep the slots that they are made of.
static inline void check_copies(const struct served_feed *feed) {
    const struct delivery *source = &feed->delivery;
    const struct pool *pool;
    for (uint32_t from = 0; from < source->ring->header->slot_count; from++) {
        uint32_t copies = 0;
        LIST_FOREACH(pool, &feed->pools, link)
            for (uint32_t slot = 0; slot < pool->ring.header->slot_count; slot++)
                copies +=
                    pool->delivery.slots[slot].phase == SLOT_FILLING && pool->tap.slots[slot].source == from;
        WORLD_MUST(copies == source->slots[from].copies);
        WORLD_MUST(!copies || source->slots[from].phase == SLOT_READY);
    }
}

static inline void check_feed(const struct served_feed *feed) {
    const struct member *member;
    const struct pool *pool;
    uint32_t members = 0;
    if (!feed->delivery.slots)
        return; // it is being made
    check_delivery(&feed->delivery);
    LIST_FOREACH(pool, &feed->pools, link)
        check_delivery(&pool->delivery);
    if (!LIST_EMPTY(&feed->pools))
        check_copies(feed);
    LIST_FOREACH(member, &feed->members, feed_link)
        members++;
    WORLD_MUST(members == feed->member_count);
}

static inline void world_check(const struct supervisor *supervisor) {
    const struct session *session;
    const struct served_feed *feed;
    uint32_t sessions = 0, feeds = 0;
    uint64_t bytes = 0;
    TAILQ_FOREACH(session, &supervisor->sessions, link)
        sessions++;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        check_feed(feed);
        feeds++;
        bytes += feed->state == FEED_CLOSING ? 0 : feed->ring_bytes;
    }
    WORLD_MUST(sessions == supervisor->session_count && feeds == supervisor->feed_count);
    WORLD_MUST(bytes <= supervisor->config->ring_memory);
}

#endif
