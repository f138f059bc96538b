// The copies of one pool on a simulated GPU, from a ring whose slots are pinned.
#ifndef FEEDD_TESTS_UNIT_COPIES_FIXTURE_H
#define FEEDD_TESTS_UNIT_COPIES_FIXTURE_H

#include "base/error.h"
#include "daemon/transfer/copies.h"
#include "gpu/gpu_host.h"
#include "order/partition.h"
#include "shm/ring_loader.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/pool_fixture.h"

#define SLOTS 80u
#define BATCH 4u

static const struct ring_shape shape = {SLOTS, BATCH, 2, 3};

static struct {
    struct gpu *gpu;
    struct ring source, pool;
    struct gpu_slots slots;
    int memory_fd;
    struct copies copies;
    uint64_t sequence, now;
} at;

static struct error said;

static inline void assert_done(int code) {
    if (code < 0)
        fail_msg("%s", said.text);
}

static inline uint64_t source_bytes(void) {
    return at.source.header->slot_bytes * SLOTS;
}

static inline void open_copies(uint32_t owner) {
    at.copies = (struct copies){0};
    static struct registration whole; // open_with pins all of the source at once
    at.copies.source = at.source;
    at.copies.pinned = &whole;
    assert_done(copies_open(&at.copies, at.gpu, &at.pool, owner, &at.slots, &said));
}

static inline void open_with(const char *faults) {
    uint64_t address = 0;
    at.sequence = 0;
    at.now = 1;
    assert_int_equal(setenv(GPU_HOST_FAULTS, faults, 1), 0);
    assert_done(gpu_open(&at.gpu, "HOST-0", &said));
    fixture_ring(&at.source, &shape);
    pool_ring(&at.pool, &shape);
    assert_done(gpu_create(at.gpu, gpu_round_up(at.gpu, ring_pool_bytes(at.pool.header)), &at.slots.first,
                           &at.memory_fd, &said));
    assert_done(gpu_host_register(at.gpu, at.source.data, source_bytes(), true, &address, &said));
    at.slots.first_bytes = ring_first_bytes(at.pool.header);
    at.slots.count = SLOTS;
    open_copies(1);
}

static inline int set_up(void **state) {
    (void)state;
    open_with("");
    return 0;
}

static inline int tear_down(void **state) {
    (void)state;
    copies_close(&at.copies);
    gpu_host_unregister(at.gpu, at.source.data);
    gpu_free(at.gpu, &at.slots.first);
    close_fd(&at.memory_fd);
    gpu_close(at.gpu);
    ring_unmap(&at.source);
    ring_unmap(&at.pool);
    return 0;
}

// ---- Batches -----------------------------------------------------------------------------------------------

// A batch of that many samples, complete in a slot of the feed's ring, and dispatched to one of the pool.
static inline void dispatch(uint32_t slot, uint32_t from, uint64_t count, uint64_t unread) {
    struct batch_place place = fixture_place(at.sequence, count, BATCH);
    struct ring_claim claim;
    assert_true(
        ring_dispatch(&at.source, from, &(struct ring_batch){.run = 1, .sequence = at.sequence++}, &place));
    while (ring_claim(&at.source, 9, &claim)) {
        fixture_fill(&at.source, &claim);
        (void)!ring_chunk_done(&at.source, &claim, 0);
    }
    assert_int_equal(ring_slot_poll(&at.source, from), RING_SLOT_READY);
    assert_true(ring_dispatch_copy(&at.pool, slot, &at.source, from, unread));
}

static inline bool is_copied(uint32_t slot) {
    return ring_slot_poll(&at.pool, slot) == RING_SLOT_READY;
}

static inline uint64_t word_of(uint32_t slot) {
    uint64_t word = 0;
    assert_done(gpu_copy_out(at.gpu, &word, at.slots.first.address + ring_pool_word(at.pool.header, slot),
                             sizeof word, &said));
    return word;
}

// The slot on the GPU has the samples of the batch, as they are in the feed's ring.
static inline void check_slot(uint32_t slot) {
    const struct ring_slot *batch = ring_slot(&at.pool, slot);
    struct ring view = {.header = at.source.header,
                        .data =
                            (uint8_t *)(uintptr_t)at.slots.first.address}; // a pointer, for a simulated GPU
    assert_true(is_copied(slot));
    assert_int_equal(word_of(slot), batch->fill);
    for (uint32_t i = 0; i < batch->count; i++)
        assert_true(fixture_sample_is(&view, slot, i, fixture_call(batch->epoch, batch->first_position + i)));
}

static inline int step(void) {
    bool wake;
    return copies_step(&at.copies, at.now++, &wake, &said);
}

// Until nothing moves any more.
static inline void settle(void) {
    for (int i = 0; i < 3; i++) {
        assert_done(step());
        assert_done(gpu_synchronize(at.gpu, &said));
    }
}

static inline void release_slot(uint32_t slot) {
    ring_slot_free(&at.pool, slot);
    ring_slot_free(&at.source, ring_slot(&at.pool, slot)->source);
}

#endif
