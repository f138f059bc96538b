// For GenMC: shm/ring_supervisor.c and shm/ring_loader.c on a ring of one slot, with a supervisor and two loaders.
// Nobody reads a description or bytes that are not in place, and a supervisor that falls asleep is woken.
// -DSTEPS=2: the slot is used again, so that old queue entries lead to a new batch. -DKILLED: a loader has died with a
// chunk. -DWEAK_...: weaker orders, with which GenMC must find an error.
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#define syscall(...)        1L      // one of those that are asleep is woken
#define memcpy(to, from, n) abort() // of a repair: none here

#ifdef WEAK_ACQUIRE // a control: must be found
#define memory_order_acquire memory_order_relaxed
#endif
#ifdef WEAK_RELEASE
#define memory_order_release memory_order_relaxed
#endif
#ifdef WEAK_SC // of what ring_chunk_done and the supervisor exchange
#undef atomic_load
#undef atomic_store
#define atomic_load(word)         atomic_load_explicit(word, memory_order_acquire)
#define atomic_store(word, value) atomic_store_explicit(word, value, memory_order_release)
#endif

#ifndef STEPS
#define STEPS 1
#endif
#ifndef CHUNKS
#define CHUNKS 2
#endif

#include "shm/ring_loader.c"
#include "shm/ring_supervisor.c"

static struct {
    struct ring_header header;
    struct ring_slot slots[1];
    _Atomic uint64_t chunks[CHUNKS];
    _Atomic uint64_t skips[1];
    _Atomic uint32_t queue[2];
} memory;

static uint64_t bytes[CHUNKS]; // not atomic: GenMC finds a race
static _Atomic uint32_t woken;

static struct ring ring_of(void) {
    return (struct ring){.header = &memory.header};
}

static void *loader(void *number) {
    struct ring ring = ring_of();
    struct ring_claim claim;
    for (int i = 0; i < CHUNKS * STEPS; i++) {
        if (!ring_claim(&ring, (uint32_t)(uintptr_t)number, &claim))
            break;
        assert(claim.count == 1 && claim.chunk_count == CHUNKS);
        bytes[claim.chunk] = claim.first_position + 1;
        if (ring_chunk_done(&ring, &claim, 0))
            atomic_fetch_add(&woken, 1);
    }
    return NULL;
}

static bool collect(struct ring *ring, uint64_t sequence) {
    if (ring_slot_poll(ring, 0) != RING_SLOT_READY)
        return false;
    for (uint64_t i = 0; i < CHUNKS; i++)
        assert(bytes[i] == sequence * CHUNKS + i + 1);
    ring_slot_free(ring, 0);
    return true;
}

int main(void) {
    struct ring ring = ring_of();
    pthread_t loaders[2];
    uint32_t done = 0, dispatched = 0;
    memory.header.slot_count = 1;
    memory.header.chunks_per_slot = CHUNKS;
    memory.header.chunk_samples = 1;
    memory.header.batch_size = CHUNKS;
    memory.header.queue_entries = 2;
    memory.header.skip_words = 1;
    memory.header.slots_offset = (uint64_t)((uint8_t *)memory.slots - (uint8_t *)&memory);
    memory.header.chunks_offset = (uint64_t)((uint8_t *)memory.chunks - (uint8_t *)&memory);
    memory.header.skips_offset = (uint64_t)((uint8_t *)memory.skips - (uint8_t *)&memory);
    memory.header.queue_offset = (uint64_t)((uint8_t *)memory.queue - (uint8_t *)&memory);
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&loaders[i], NULL, loader, (void *)(i + 1));
    for (int i = 0; i < STEPS; i++) {
        struct ring_batch name = {.run = 1, .rank = 0, .sequence = dispatched};
        struct batch_place place = {.first_position = (uint64_t)dispatched * CHUNKS, .count = CHUNKS};
        if (dispatched > done)
            break;
        assert(ring_dispatch(&ring, 0, &name, &place));
        dispatched++;
#ifdef KILLED // before the others come to claim anything; what is recovered is the same at any time
        struct ring_claim lost;
        if (ring_claim(&ring, 3, &lost))
            assert(ring_recover(&ring, 3) == 1);
#endif
        ring_supervisor_arm(&ring);
        done += collect(&ring, done);
    }
    pthread_join(loaders[0], NULL);
    pthread_join(loaders[1], NULL);
    // Whoever looked before the batch was complete has been told of its end, if loaders found all of it.
    if (done < dispatched && collect(&ring, done))
        assert(atomic_load(&woken) > 0);
    return 0;
}
