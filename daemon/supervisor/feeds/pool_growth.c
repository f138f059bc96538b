#include "daemon/supervisor/feeds/pool_growth.h"

#include <string.h>

#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/supervisor/delivery/lane.h"
#include "daemon/supervisor/delivery/window.h"
#include "daemon/supervisor/feeds/pool_memory.h"

// What a GPU allocates at least.
#define STEP_BYTES (2 * MIB)
// How far a transfer process may round up what it was asked for.
#define ROUNDED_MOST (64 * MIB)
#define CRASHES_MOST 5u
// After a lack of memory.
#define AGAIN_NS (100 * NS_PER_MS)

enum growth_state {
    GROWTH_NONE,
    GROWTH_ASKED,  // of the transfer process, one slot at a time
    GROWTH_FAILED, // to be acted on
};

static const struct state growth_states[] = {
    [GROWTH_NONE] = {"none", STATE(GROWTH_ASKED) | STATE(GROWTH_FAILED)},
    [GROWTH_ASKED] = {"asked", STATE(GROWTH_NONE) | STATE(GROWTH_FAILED)},
    [GROWTH_FAILED] = {"failed", STATE(GROWTH_NONE)},
};
static const struct state_table growth_table = STATE_TABLE("growth of a pool's slot", growth_states);

// The memory of one slot of the pool.
struct slot_memory {
    uint64_t bytes;       // that it has
    uint64_t own_bytes;   // of memory of its own; 0: it has a part of the pool's
    uint64_t older_bytes; // of such memory that it had before, and that a client still maps
    int fd;               // of its own memory, or -1
    uint32_t grown;       // how often
};

struct pool_growth {
    enum growth_state state;
    uint32_t slot;
    uint64_t wanted; // by the batch
    uint64_t bytes;  // asked for, and counted in the pool's promised_bytes
    bool modest;     // ask for no more than the batch needs, since more was not available
    struct error error;
    uint64_t lacking_since_ns; // since when a batch has waited for memory; 0: none does
    uint64_t tried_ns;         // when growth last failed for lack of it
    uint32_t crashes;          // transfer processes, in a row, that died while a slot grew
    uint32_t slot_count;
    struct slot_memory slots[];
};

static void set_state(struct pool_growth *growth, enum growth_state state) {
    growth->state = (enum growth_state)state_next(&growth_table, growth->state, state);
}

// ---- What clients have been told ---------------------------------------------------------------------------

// Clients unmap what a slot had before when they are told what it has now.
static void forget_older(struct pool *pool, uint32_t slot) {
    struct slot_memory *memory = &pool->growth->slots[slot];
    const struct member *member;
    if (!memory->older_bytes)
        return;
    LIST_FOREACH(member, &pool->members, pool_link)
        if (member->told[slot] && member->told[slot] != memory->grown)
            return;
    pool->tenant.promised_bytes -= memory->older_bytes;
    memory->older_bytes = 0;
}

int pool_growth_enter(const struct pool *pool, struct member *member, struct error *error) {
    if (!pool->growth)
        return 0;
    member->told = calloc(pool->growth->slot_count, sizeof *member->told);
    return member->told ? 0 : error_set(error, -ENOMEM, "out of memory");
}

void pool_growth_leave(struct pool *pool, struct member *member) {
    free(member->told);
    member->told = NULL;
    for (uint32_t slot = 0; pool->growth && slot < pool->growth->slot_count; slot++)
        forget_older(pool, slot);
}

// ---- For the transfer process ------------------------------------------------------------------------------

uint32_t pool_growth_count(const struct pool *pool) {
    uint32_t count = 0;
    for (uint32_t slot = 0; pool->growth && slot < pool->growth->slot_count; slot++)
        count += pool->growth->slots[slot].own_bytes != 0;
    return count;
}

void pool_growth_give(const struct pool *pool) {
    for (uint32_t slot = 0; pool->growth && slot < pool->growth->slot_count; slot++) {
        const struct slot_memory *memory = &pool->growth->slots[slot];
        struct transfer_request request = {.kind = TRANSFER_GIVE_MEMORY,
                                           .pool = pool->tenant.id,
                                           .slot = slot,
                                           .memory_bytes = memory->own_bytes};
        if (memory->own_bytes)
            device_send(pool->tenant.device, &request, &memory->fd, 1);
    }
}

static bool ask(struct pool *pool, uint32_t slot, uint64_t bytes) {
    struct pool_growth *growth = pool->growth;
    struct transfer_request request = {
        .kind = TRANSFER_GROW_SLOT, .pool = pool->tenant.id, .slot = slot, .memory_bytes = bytes};
    if (!device_send(pool->tenant.device, &request, NULL, 0))
        return false;
    growth->slot = slot;
    growth->bytes = bytes;
    // What is being allocated counts, so that pools that grow at the same time do not exceed the limits together.
    pool->tenant.promised_bytes += bytes;
    set_state(growth, GROWTH_ASKED);
    return true;
}

static void fail(struct pool *pool) {
    set_state(pool->growth, GROWTH_FAILED);
    served_feed_mark(pool->feed);
}

// The batch is about to be dispatched, and no free slot is large enough.
static void start(struct pool *pool, uint32_t slot, uint64_t wanted) {
    struct pool_growth *growth = pool->growth;
    uint64_t usual = min_u64(2 * growth->slots[slot].bytes, pool->ring.header->slot_bytes);
    uint64_t bytes = align_up(growth->modest ? wanted : max_u64(wanted, usual), STEP_BYTES);
    growth->wanted = wanted;
    growth->bytes = bytes;
    if (pool_memory_find(pool->tenant.device, pool->feed->user, bytes,
                         "a batch needs more memory than most:", &growth->error))
        fail(pool);
    else
        ask(pool, slot, bytes);
}

static void take(struct pool *pool, uint64_t bytes, int *fd) {
    struct pool_growth *growth = pool->growth;
    struct slot_memory *memory = &growth->slots[growth->slot];
    pool->tenant.promised_bytes += bytes - growth->bytes;
    memory->older_bytes += memory->own_bytes;
    device_close(pool->tenant.device, &memory->fd);
    memory->fd = *fd;
    *fd = -1;
    memory->bytes = memory->own_bytes = bytes;
    memory->grown++;
    forget_older(pool, growth->slot);
}

void pool_growth_answered(struct pool *pool, const struct transfer_report *report, int *fd) {
    struct pool_growth *growth = pool->growth;
    if (pool->state != POOL_OPEN)
        return; // it has been closed in the meantime
    if (!growth || growth->state != GROWTH_ASKED || report->slot != growth->slot) {
        pool_condemn(pool, -EPROTO, "a transfer process reported growth of a slot that was not to grow");
        return;
    }
    if (report->kind == TRANSFER_GROWTH_REFUSED) {
        pool->tenant.promised_bytes -= growth->bytes;
        error_set(
            &growth->error, report->code,
            "a batch needs more memory than most, and %s: ask for smaller batches or a smaller prefetch",
            report->text);
        fail(pool);
        return;
    }
    if (*fd < 0 || report->memory_bytes < growth->bytes ||
        report->memory_bytes > growth->bytes + ROUNDED_MOST) {
        pool_condemn(pool, -EPROTO, "a transfer process gave a slot the wrong amount of memory");
        return;
    }
    take(pool, report->memory_bytes, fd);
    growth->crashes = 0;
    set_state(growth, GROWTH_NONE);
}

// Nobody else has what it was allocating. The batch is still to be dispatched, so the next one is asked again.
void pool_growth_died(struct pool *pool) {
    struct pool_growth *growth = pool->growth;
    if (!growth || growth->state != GROWTH_ASKED)
        return;
    pool->tenant.promised_bytes -= growth->bytes;
    if (++growth->crashes < CRASHES_MOST) {
        set_state(growth, GROWTH_NONE);
        return;
    }
    error_set(&growth->error, -EIO,
              "the transfer process has died each time that a slot of the pool was to grow");
    fail(pool);
}

// ---- Lack of memory ----------------------------------------------------------------------------------------

// As in growth.c.
static bool another_is_large(const struct pool *pool, uint64_t now) {
    const struct pool_growth *growth = pool->growth;
    for (uint32_t slot = 0; slot < growth->slot_count; slot++)
        if (growth->slots[slot].bytes >= growth->wanted)
            return now < growth->lacking_since_ns + pool->feed->max_lag_ns;
    return false;
}

static bool may_come(struct pool *pool) {
    struct pool_growth *growth = pool->growth;
    uint64_t now = monotonic_ns();
    if (growth->error.code != -ENOSPC && growth->error.code != -ENOMEM)
        return false;
    if (!growth->modest && growth->bytes > align_up(growth->wanted, STEP_BYTES))
        return growth->modest = true;
    growth->tried_ns = now;
    if (!growth->lacking_since_ns)
        growth->lacking_since_ns = now;
    // Idle pools have made way for what is within the limits.
    bool way = growth->error.code == -ENOMEM && pool_memory_make_way(pool->tenant.device);
    return way || another_is_large(pool, now);
}

void pool_growth_act(struct pool *pool) {
    struct pool_growth *growth = pool->growth;
    if (!growth || growth->state != GROWTH_FAILED)
        return;
    set_state(growth, GROWTH_NONE);
    if (pool->state != POOL_CLOSING && !may_come(pool)) // or else the tick tries again
        pool_fail(pool, growth->error.code, growth->error.text);
}

// ---- Choosing a slot ---------------------------------------------------------------------------------------

// Takes one of the smallest free slots that are large enough, so that large ones are left for large batches.
static bool find_slot(const struct pool_growth *growth, struct delivery *delivery, uint64_t bytes) {
    uint32_t *free = delivery->free_slots, last = delivery->free_count - 1, best = UINT32_MAX;
    for (uint32_t i = delivery->free_count; i-- > 0;) {
        uint64_t has = growth->slots[free[i]].bytes;
        // The transfer process may be unmapping what this slot has now.
        if (growth->state == GROWTH_ASKED && growth->slot == free[i])
            continue;
        if (has >= bytes && (best == UINT32_MAX || has < growth->slots[free[best]].bytes))
            best = i;
    }
    if (best == UINT32_MAX)
        return false;
    uint32_t slot = free[best];
    free[best] = free[last];
    free[last] = slot;
    return true;
}

// The largest free slot, since what it has is freed.
static uint32_t slot_to_grow(const struct pool_growth *growth, const struct delivery *delivery) {
    uint32_t best = window_next_slot(delivery);
    for (uint32_t i = delivery->free_count; i-- > 0;)
        if (growth->slots[delivery->free_slots[i]].bytes > growth->slots[best].bytes)
            best = delivery->free_slots[i];
    return best;
}

static bool choose(struct tap *tap, struct delivery *delivery, uint64_t bytes) {
    struct pool *pool = CONTAINER_OF(tap, struct pool, tap);
    struct pool_growth *growth = pool->growth;
    if (find_slot(growth, delivery, bytes)) {
        growth->lacking_since_ns = 0;
        growth->modest = false;
        return true;
    }
    if (growth->state == GROWTH_NONE && pool->state == POOL_OPEN && pool->bits &&
        monotonic_ns() >= growth->tried_ns + AGAIN_NS)
        start(pool, slot_to_grow(growth, delivery), bytes);
    return false;
}

static const struct tap_events events = {.choose = choose};

// ---- Telling clients ---------------------------------------------------------------------------------------

// False: not now.
static bool tell(struct pool *pool, struct member *member, uint32_t slot) {
    const struct slot_memory *memory = &pool->growth->slots[slot];
    if (member->told[slot] == memory->grown)
        return true;
    if (!member->events->slot_grown(member, slot, memory->own_bytes, memory->fd))
        return false;
    member->told[slot] = memory->grown;
    forget_older(pool, slot);
    return true;
}

uint32_t pool_growth_tell(struct pool *pool, struct member *member, uint32_t most) {
    const struct consumer *consumer = &member->consumer;
    const struct lane *lane = consumer->lane;
    if (!pool->growth)
        return most;
    uint64_t left = min_u64(most, consumer->prefetch - consumer->held_count);
    for (uint32_t i = 0; i < left; i++) {
        uint64_t sequence = consumer->cursor + i;
        if (sequence >= consumer->end || sequence < lane->base || sequence - lane->base >= lane->ready ||
            !tell(pool, member, window_at(&pool->delivery, lane, (uint32_t)(sequence - lane->base))))
            return i;
    }
    return (uint32_t)left;
}

// ---- Opening and closing -----------------------------------------------------------------------------------

int pool_growth_open(struct pool *pool, struct error *error) {
    const struct ring_header *header = pool->ring.header;
    struct pool_growth *growth;
    if (!header->ragged_count)
        return 0;
    pool->growth = growth = calloc(1, sizeof *growth + header->slot_count * sizeof growth->slots[0]);
    if (!growth)
        return error_set(error, -ENOMEM, "out of memory");
    growth->slot_count = header->slot_count;
    for (uint32_t slot = 0; slot < growth->slot_count; slot++)
        growth->slots[slot] = (struct slot_memory){.bytes = ring_first_bytes(header), .fd = -1};
    pool->tap.events = &events;
    return 0;
}

void pool_growth_close(struct pool *pool) {
    for (uint32_t slot = 0; pool->growth && slot < pool->growth->slot_count; slot++)
        if (pool->growth->slots[slot].fd >= 0)
            device_close(pool->tenant.device, &pool->growth->slots[slot].fd);
    free(pool->growth);
    pool->growth = NULL;
}
