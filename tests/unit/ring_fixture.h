// A ring for tests, cut into chunks as small as a test wants: ring_plan cuts by bytes, which makes for
// large rings. The header is written by hand into a memory file and then goes through ring_map like any
// other, so processes can share it too.
#ifndef FEEDD_TESTS_UNIT_RING_FIXTURE_H
#define FEEDD_TESTS_UNIT_RING_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sizes.h"
#include "order/partition.h"
#include "shm/ring.h"
#include "shm/ring_loader.h"
#include "shm/ring_supervisor.h"
#include "shm/ring_words.h"

// Every sample has two fields: a word that names it, and as many of these words as `words` says.
struct ring_shape {
    uint32_t slots, batch, chunk_samples, words;
};

static inline struct ring_field fixture_field(const char *name, uint32_t words, uint64_t offset) {
    struct ring_field field = {.dtype = DTYPE_U64,
                               .dimensions = 1,
                               .shape = {words},
                               .sample_bytes = 8ull * words,
                               .slot_offset = offset};
    snprintf(field.name, sizeof field.name, "%s", name);
    return field;
}

static inline int fixture_write_header(int fd, const struct ring_shape *shape) {
    uint32_t chunks = (uint32_t)divide_up(shape->batch, shape->chunk_samples);
    uint64_t first_field = align_up(8ull * shape->batch, CACHE_LINE);
    struct ring_header header = {
        .version = RING_VERSION,
        .header_bytes = sizeof(struct ring_control),
        .slot_count = shape->slots,
        .chunks_per_slot = chunks,
        .chunk_samples = shape->chunk_samples,
        .batch_size = shape->batch,
        .field_count = 2,
        .queue_entries = 1,
        .skip_words = (uint32_t)divide_up(shape->batch, 64),
        .slots_offset = RING_PAGE,
        .slot_bytes = align_up(first_field + 8ull * shape->batch * shape->words, RING_PAGE),
        .samples = 1u << 20,
        .world_size = 1,
    };
    while (header.queue_entries < 2 * shape->slots)
        header.queue_entries *= 2;
    header.chunks_offset = header.slots_offset + shape->slots * sizeof(struct ring_slot);
    header.skips_offset = align_up(header.chunks_offset + 8ull * shape->slots * chunks, CACHE_LINE);
    header.queue_offset = align_up(header.skips_offset + 8ull * shape->slots * header.skip_words, CACHE_LINE);
    header.data_offset = align_up(header.queue_offset + 4ull * header.queue_entries, RING_PAGE);
    header.total_bytes = header.data_offset + header.slot_bytes * shape->slots;
    header.fields[0] = fixture_field("name", 1, 0);
    header.fields[1] = fixture_field("words", shape->words, first_field);
    atomic_store(&header.magic, RING_MAGIC);
    if (ftruncate(fd, (off_t)header.total_bytes) < 0)
        return -errno;
    return pwrite(fd, &header, sizeof header, 0) == (ssize_t)sizeof header ? 0 : -EIO;
}

static inline void fixture_ring(struct ring *ring, const struct ring_shape *shape) {
    struct error error = {0};
    AUTO_CLOSE int fd = memfd_create("ring of a test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fixture_write_header(fd, shape), 0);
    if (ring_map(ring, fd, RING_FILL, &error) < 0 || ring_supervise(ring, &error) < 0)
        fail_msg("%s", error.text);
}

// For cmocka: a ring of its own for each test.
static inline int fixture_set_up(void **state, const struct ring_shape *shape) {
    struct ring *ring = calloc(1, sizeof *ring);
    assert_non_null(ring);
    fixture_ring(ring, shape);
    *state = ring;
    return 0;
}

static inline int fixture_tear_down(void **state) {
    ring_unmap(*state);
    free(*state);
    return 0;
}

// ---- Samples ----------------------------------------------------------------------------------------------

static inline uint64_t fixture_word(uint64_t name, uint64_t at) {
    return (name + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ at * UINT64_C(0xc2b2ae3d27d4eb4f);
}

static inline uint64_t *fixture_name(const struct ring *ring, uint32_t slot, uint32_t sample) {
    return (uint64_t *)ring_slot_data(ring, slot) + sample;
}

static inline uint64_t *fixture_words(const struct ring *ring, uint32_t slot, uint32_t sample) {
    const struct ring_field *field = &ring->header->fields[1];
    return (uint64_t *)(ring_slot_data(ring, slot) + field->slot_offset + sample * field->sample_bytes);
}

// What a loader does: the sample at a position is called by its epoch and position.
static inline uint64_t fixture_call(uint64_t epoch, uint64_t position) {
    return epoch << 32 | position;
}

static inline void fixture_fill_sample(const struct ring *ring, uint32_t slot, uint32_t sample,
                                       uint64_t name) {
    uint64_t words = ring->header->fields[1].shape[0];
    *fixture_name(ring, slot, sample) = name;
    for (uint64_t at = 0; at < words; at++)
        fixture_words(ring, slot, sample)[at] = fixture_word(name, at);
}

static inline void fixture_fill(const struct ring *ring, const struct ring_claim *claim) {
    for (uint32_t i = 0; i < claim->count; i++)
        fixture_fill_sample(ring, claim->slot, claim->first_sample + i,
                            fixture_call(claim->epoch, claim->first_position + i));
}

static inline bool fixture_sample_is(const struct ring *ring, uint32_t slot, uint32_t sample, uint64_t name) {
    uint64_t words = ring->header->fields[1].shape[0];
    bool same = *fixture_name(ring, slot, sample) == name;
    for (uint64_t at = 0; same && at < words; at++)
        same = fixture_words(ring, slot, sample)[at] == fixture_word(name, at);
    return same;
}

// The batch holds, in this order, what was dispatched; for batches without holes.
static inline bool fixture_batch_is_whole(const struct ring *ring, uint32_t slot) {
    const struct ring_slot *batch = ring_slot(ring, slot);
    bool same = batch->skipped == 0;
    for (uint32_t i = 0; same && i < batch->count; i++)
        same = fixture_sample_is(ring, slot, i, fixture_call(batch->epoch, batch->first_position + i));
    return same;
}

// Batch number `sequence` of a run over ever new samples; `count` samples.
static inline struct batch_place fixture_place(uint64_t sequence, uint64_t count, uint32_t batch) {
    return (struct batch_place){.epoch = 3,
                                .index = sequence,
                                .first_position = sequence * batch,
                                .count = count,
                                .consumed = (sequence + 1) * batch};
}

// xorshift64*: the same numbers in every run of a test.
static inline uint64_t fixture_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

#endif
