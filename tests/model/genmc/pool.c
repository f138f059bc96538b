// For GenMC: a batch is copied to a pool on a GPU (ring_dispatch_copy, copies.c), a consumer there reads it, and
// slots are used again on both sides: that of the feed's ring once the copy is done, that of the pool once the consumer
// has released it by a word, or has left (LEFT). The GPU is a thread, so are the consumer and its stream. Of copies.c
// only what looks at shared words is used: GenMC cannot read how it copies structures. FREED_EARLY: the supervisor does
// not wait for the copy.
// Linked with: shm/ring_loader.c shm/ring_supervisor.c shm/ring_places.c
// Linked with: client/lib/mapped_pool.c daemon/supervisor/delivery/fill_tap.c
#include "tests/model/genmc/ring.h"

#include "client/feed.h"
#include "client/lib/mapped_pool.h"
#include "daemon/supervisor/delivery/delivery.h"
#include "daemon/supervisor/delivery/fill_tap.h"
#include "shm/ring_words.h"

#include "daemon/transfer/copies.c"

enum {
    CONSUMER = 0,
    OWNER = 1,
    ROUNDS = 2
};

RING_MEMORY(feed, 1, 1, 2, 0);
RING_MEMORY(pool, 1, 1, 2, 1);

// Not atomic: GenMC finds a race.
static uint64_t source[1];
static struct {
    uint64_t bytes;
    _Atomic uint64_t filled; // the slot's sequence word
} gpu_memory;

static _Atomic uint64_t copied[1], released[1];
static _Atomic uint32_t granted, left; // messages on the consumer's socket

long syscall(long number, ...) {
    return 1;
}

// ---- The GPU -----------------------------------------------------------------------------------------------

static struct {
    uint64_t to;
    const uint64_t *from;
    struct gpu_word words[2];
} commands[ROUNDS];
static _Atomic uint32_t queued;

static void queue_copy_of(uint32_t round, uint64_t fill) {
    commands[round].to = (uint64_t)(uintptr_t)&gpu_memory.bytes;
    commands[round].from = source;
    commands[round].words[0].address = (uint64_t)(uintptr_t)&gpu_memory.filled;
    commands[round].words[1].address = (uint64_t)(uintptr_t)copied;
    commands[round].words[0].value = commands[round].words[1].value = fill;
    atomic_store_explicit(&queued, round + 1, memory_order_release); // as the driver queues
}

static void *gpu(void *unused) {
    for (uint32_t i = 0; i < ROUNDS; i++) {
        __VERIFIER_assume(atomic_load_explicit(&queued, memory_order_acquire) > i);
        *(uint64_t *)(uintptr_t)commands[i].to = *commands[i].from;
        for (uint32_t word = 0; word < 2; word++)
            atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)commands[i].words[word].address,
                                  commands[i].words[word].value, memory_order_release);
    }
    return unused;
}

// ---- Everybody else. Whoever waits by a relaxed look learns nothing by it that it may rely on. --------------

static void await_release(const struct copies *copies, const struct copy *copy) {
    if (!unreleased(copies, copy))
        return;
#ifdef LEFT
    __VERIFIER_assume(atomic_load_explicit(&pool.slots[0].unread, memory_order_relaxed) == 0);
#else
    __VERIFIER_assume(atomic_load_explicit(&released[0], memory_order_relaxed) + 1 >= copy->fill);
#endif
    __VERIFIER_assume(!unreleased(copies, copy));
}

static void *transfer(void *unused) {
    struct ring ring = RING_OF(pool);
    static struct copy under_way[1];
    static struct copies copies;
    copies.ring = &ring;
    copies.owner = OWNER;
    copies.done = copied;
    copies.under_way = under_way;
    copies.consumers[CONSUMER].words = released;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct ring_claim claim;
        __VERIFIER_assume(atomic_load_explicit(&pool.control.queue_head, memory_order_relaxed) > round);
        CHECK(ring_claim(&ring, OWNER, &claim));
        const struct ring_slot *batch = ring_slot(&ring, claim.slot);
        CHECK(batch->source == 0 && batch->fill == round + 1 && batch->sequence == round &&
              batch->count == 1);
        under_way[0].claim.slot = claim.slot;
        under_way[0].claim.chunk = claim.chunk;
        under_way[0].claim.chunk_count = claim.chunk_count;
        under_way[0].fill = batch->fill;
        await_release(&copies, &under_way[0]);
        copies.under_way_count = 1;
        queue_copy_of(round, batch->fill);
        __VERIFIER_assume(atomic_load_explicit(&copied[0], memory_order_relaxed) >= batch->fill);
        (void)report_done(&copies, 0);
        CHECK(copies.under_way_count == 0);
    }
    return unused;
}

static void fill_source(uint64_t value) {
    struct ring ring = RING_OF(feed);
    struct ring_claim claim;
    if (!ring_claim(&ring, OWNER, &claim))
        return;
    source[0] = value;
    (void)ring_chunk_done(&ring, &claim, 0);
}

static void *loader(void *unused) {
    __VERIFIER_assume(atomic_load_explicit(&feed.control.queue_head, memory_order_relaxed) >= 2);
    fill_source(2);
    return unused;
}

static void *consumer(void *unused) {
    struct mapped_pool mapped;
    struct error error;
    mapped.words = released;
    __VERIFIER_assume(atomic_load_explicit(&granted, memory_order_acquire) == 1);
    CHECK(gpu_memory.bytes == 1);
#ifdef LEFT
    atomic_store_explicit(&left, 1, memory_order_release);
#else
    CHECK(mapped_pool_release(&mapped, 0, 1, FEED_NO_STREAM, &error) == 0);
#endif
    return unused;
}

static void dispatch_batch(struct ring *ring, uint64_t sequence) {
    struct ring_batch name = {.run = 1, .rank = 0, .sequence = sequence};
    struct batch_place place = {.first_position = sequence, .count = 1};
    CHECK(ring_dispatch(ring, 0, &name, &place));
}

static void await_done(_Atomic uint64_t *word) {
    __VERIFIER_assume(chunk_state(atomic_load_explicit(word, memory_order_relaxed)) == CHUNK_DONE);
}

// As when its socket closes.
static void take_leave(void) {
    struct ring ring = RING_OF_SUPERVISOR(pool);
    struct tap_slot slots[1];
    struct tap tap;
    struct delivery delivery;
    struct consumer who;
    slots[0].holders = 1u << CONSUMER;
    delivery.ring = &ring;
    delivery.filler = tap_open(&tap, NULL);
    tap.slots = slots;
    who.bit = CONSUMER;
    __VERIFIER_assume(atomic_load_explicit(&left, memory_order_acquire) == 1);
    delivery.filler->operations->left(&delivery, &who);
}

int main(void) {
    struct ring feed_ring = RING_OF_SUPERVISOR(feed), pool_ring = RING_OF_SUPERVISOR(pool);
    dispatch_batch(&feed_ring, 0);
    fill_source(1);
    CHECK(ring_slot_poll(&feed_ring, 0) == RING_SLOT_READY);
    long threads[4] = {spawn(transfer, NULL), spawn(gpu, NULL), spawn(loader, NULL), spawn(consumer, NULL)};

    CHECK(ring_dispatch_copy(&pool_ring, 0, &feed_ring, 0, 0));
#ifndef FREED_EARLY
    await_done(&pool.chunks[0]);
    CHECK(ring_slot_poll(&pool_ring, 0) == RING_SLOT_READY);
#endif
    ring_slot_free(&feed_ring, 0);
    dispatch_batch(&feed_ring, 1);
    atomic_store_explicit(&granted, 1, memory_order_release);

    // Its consumer may return a batch on its socket long before its stream has read it.
    await_done(&feed.chunks[0]);
    CHECK(ring_slot_poll(&feed_ring, 0) == RING_SLOT_READY);
    ring_slot_free(&pool_ring, 0);
    CHECK(ring_dispatch_copy(&pool_ring, 0, &feed_ring, 0, 1u << CONSUMER));
#ifdef LEFT
    take_leave();
#endif
    await_done(&pool.chunks[0]);
    CHECK(ring_slot_poll(&pool_ring, 0) == RING_SLOT_READY);
    CHECK(gpu_memory.bytes == 2 && ring_slot(&pool_ring, 0)->sequence == 1);
    for (uint32_t i = 0; i < 4; i++)
        join(threads[i]);
    return 0;
}
