#include "daemon/supervisor/feeds/growth.h"

#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/on_error.h"
#include "daemon/supervisor/delivery/window.h"
#include "daemon/supervisor/feeds/batch_places.h"
#include "daemon/supervisor/feeds/budget.h"
#include "daemon/supervisor/feeds/idle.h"
#include "daemon/supervisor/feeds/room.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "shm/ring_make.h"
#include "shm/ring_supervisor.h"

// Slots do not grow by a page at a time.
#define STEP_BYTES (256u << 10)
// After a lack of memory. What others give back takes a while, and each attempt fills /dev/shm for a moment.
#define AGAIN_NS (100 * NS_PER_MS)

enum growth_state {
    GROWTH_NONE,
    GROWTH_RUNNING, // in a thread, one slot at a time
    GROWTH_DONE,    // its outcome, or why it did not begin, is to be acted on
};

static const struct state growth_states[] = {
    [GROWTH_NONE] = {"none", STATE(GROWTH_RUNNING) | STATE(GROWTH_DONE)},
    [GROWTH_RUNNING] = {"running", STATE(GROWTH_DONE)},
    [GROWTH_DONE] = {"done", STATE(GROWTH_NONE)},
};
static const struct state_table growth_table = STATE_TABLE("growth of a slot", growth_states);

struct growth {
    uv_work_t work;
    struct served_feed *feed;
    struct batch_places *places;
    enum growth_state state;
    uint32_t slot;
    uint64_t wanted;   // by the batch
    uint64_t from, to; // in the slot
    bool freeing;      // others gave memory back when it began
    int err;
    struct error error;
    uint64_t lacking_since_ns; // since when a batch has waited for memory that there is not; 0: none does
    uint64_t tried_ns;         // when it last failed for that reason
    uint64_t allocated[];      // of each slot
};

static void set_state(struct growth *growth, enum growth_state state) {
    growth->state = (enum growth_state)state_next(&growth_table, growth->state, state);
}

// ---- In a thread -------------------------------------------------------------------------------------------

static void work(uv_work_t *job) {
    struct growth *growth = job->data;
    const struct ring_header *header = growth->feed->ring.header;
    uint64_t slot_offset = header->data_offset + growth->slot * header->slot_bytes;
    growth->err = ring_grow(growth->feed->ring_fd, slot_offset + growth->from, growth->to - growth->from,
                            &growth->error);
}

static void on_worked(uv_work_t *job, int status) {
    struct growth *growth = job->data;
    if (status < 0)
        growth->err = error_set(&growth->error, status, "the feed was given up");
    set_state(growth, GROWTH_DONE);
    served_feed_mark(growth->feed);
}

// ---- On the loop -------------------------------------------------------------------------------------------

// What is being allocated counts, so that feeds that grow at the same time do not exceed the limits together.
static void count(struct served_feed *feed, uint64_t bytes) {
    feed->ring_bytes += bytes;
    stats_feed_write_begin(feed->stats);
    feed->stats->ring_bytes = feed->ring_bytes;
    stats_feed_write_end(feed->stats);
}

// If no thread can be had, whoever wants the room tries again.
static void start(struct growth *growth, uint32_t slot, uint64_t bytes) {
    struct served_feed *feed = growth->feed;
    struct supervisor *supervisor = feed->supervisor;
    growth->slot = slot;
    growth->wanted = bytes;
    growth->from = growth->allocated[slot];
    growth->to = min_u64(align_up(bytes, STEP_BYTES), feed->ring.header->slot_bytes);
    growth->freeing = room_is_being_made(supervisor);
    growth->err = budget_grow(feed, growth->to - growth->from, &growth->error);
    if (growth->err) {
        growth->to = growth->from;
        set_state(growth, GROWTH_DONE);
        served_feed_mark(feed);
        return;
    }
    if (uv_queue_work(&supervisor->loop, &growth->work, work, on_worked) < 0)
        return;
    set_state(growth, GROWTH_RUNNING);
    count(feed, growth->to - growth->from);
}

// Of the free slots the one used last that is large enough: it comes last in the list.
static bool find_slot(const struct growth *growth, struct delivery *delivery, uint64_t bytes) {
    uint32_t *free = delivery->free_slots, last = delivery->free_count - 1;
    for (uint32_t i = delivery->free_count; i-- > 0;) {
        uint32_t slot = free[i];
        if (growth->allocated[slot] < bytes)
            continue;
        if (i != last)
            batch_places_take(delivery->ring, free[last], slot);
        free[i] = free[last];
        free[last] = slot;
        return true;
    }
    return false;
}

// Nobody waits for the batches of an idle feed, which would be the first to make way.
static bool may_start(const struct growth *growth) {
    return growth->state == GROWTH_NONE && !idle_is(growth->feed) &&
           monotonic_ns() >= growth->tried_ns + AGAIN_NS;
}

static bool choose(struct loaders_fill *fill, struct delivery *delivery, const struct batch_place *place) {
    struct served_feed *feed = CONTAINER_OF(fill, struct served_feed, fill);
    struct growth *growth = feed->growth;
    uint32_t slot = window_next_slot(delivery);
    uint64_t bytes = batch_places_compute(growth->places, &feed->ring, slot, place);
    if (find_slot(growth, delivery, bytes)) {
        growth->lacking_since_ns = 0;
        return true;
    }
    if (may_start(growth))
        start(growth, slot, bytes);
    return false;
}

// Replacements may be larger than what they replace. The slot grows then; it is nobody else's meanwhile.
static int mend(struct loaders_fill *fill, struct delivery *delivery, uint32_t slot,
                const struct ring_batch *name, const struct batch_place *place) {
    struct served_feed *feed = CONTAINER_OF(fill, struct served_feed, fill);
    struct growth *growth = feed->growth;
    uint64_t bytes;
    int err;
    if (feed->dataset->on_error == ON_ERROR_FAIL)
        return -EBADMSG; // loaders skip nothing then
    if (feed->dataset->on_error == ON_ERROR_SKIP) {
        err = batch_places_close_up(growth->places, delivery->ring, slot, place);
        return err ? err : 1;
    }
    if (growth->state != GROWTH_NONE || monotonic_ns() < growth->tried_ns + AGAIN_NS)
        return 0;
    err = batch_places_replace(growth->places, delivery->ring, slot, place, &bytes);
    if (err)
        return err;
    if (growth->allocated[slot] >= bytes) {
        growth->lacking_since_ns = 0;
        batch_places_commit(growth->places, delivery->ring, slot, place);
        ring_dispatch_again(delivery->ring, slot, name, place);
        return 1;
    }
    if (may_start(growth))
        start(growth, slot, bytes);
    return 0;
}

static const struct loaders_fill_events events = {.choose = choose, .mend = mend};

int growth_open(struct served_feed *feed, uint64_t slot_allocated_bytes, struct batch_places *places,
                struct error *error) {
    uint32_t slots = feed->ring.header->slot_count;
    struct growth *growth;
    loaders_fill_init(&feed->fill, NULL);
    if (!places)
        return 0;
    feed->growth = growth = calloc(1, sizeof *growth + slots * sizeof growth->allocated[0]);
    if (!growth) {
        batch_places_close(places);
        return error_set(error, -ENOMEM, "out of memory");
    }
    growth->places = places;
    growth->work.data = growth;
    growth->feed = feed;
    for (uint32_t slot = 0; slot < slots; slot++)
        growth->allocated[slot] = slot_allocated_bytes;
    feed->fill.events = &events;
    return 0;
}

void growth_close(struct served_feed *feed) {
    if (feed->growth)
        batch_places_close(feed->growth->places);
    free(feed->growth);
    feed->growth = NULL;
}

bool growth_is_busy(const struct served_feed *feed) {
    return feed->growth && feed->growth->state == GROWTH_RUNNING;
}

// Another slot has as much, so the batch can have that one once its consumers have released it. Not for longer than
// others wait for a consumer: those that want the batch may be the ones that hold the slot.
static bool another_is_large(const struct growth *growth, uint64_t now) {
    const struct served_feed *feed = growth->feed;
    for (uint32_t slot = 0; slot < feed->ring.header->slot_count; slot++)
        if (growth->allocated[slot] >= growth->wanted)
            return now < growth->lacking_since_ns + feed->max_lag_ns;
    return false;
}

static bool may_come(struct growth *growth) {
    uint64_t now = growth->tried_ns = monotonic_ns();
    if (growth->err != -ENOSPC && growth->err != -ENOMEM)
        return false;
    if (!growth->lacking_since_ns)
        growth->lacking_since_ns = now;
    return growth->freeing || room_make_way(growth->feed->supervisor) || another_is_large(growth, now);
}

void growth_act(struct served_feed *feed) {
    struct growth *growth = feed->growth;
    if (!growth || growth->state != GROWTH_DONE)
        return;
    set_state(growth, GROWTH_NONE);
    if (!growth->err)
        growth->allocated[growth->slot] = growth->to;
    else
        count(feed, growth->from - growth->to);
    if (growth->err && feed->state != FEED_CLOSING && !may_come(growth)) // or else the tick tries again
        served_feed_fail(feed, growth->err, "a batch needs more memory than most, and %s",
                         growth->error.text);
}
