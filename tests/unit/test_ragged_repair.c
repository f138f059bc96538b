// Batches with ragged fields of which samples could not be read: closed up, or read again with others in their places.
#include "shm/ring_make.h"

#include <stdlib.h>
#include <unistd.h>

#include "order/splitmix.h"
#include "shm/holes.h"
#include "shm/ring_lacking.h"
#include "tests/unit/ring_fixture.h"

#define BATCH  150 // skip bits in three words
#define RAGGED 2
#define LINES  7 // bytes of a sample of the longest kind
#define OWNER  5

struct object {
    int fd, read_fd;
    struct ring ring;
};

static int make_object(void **state) {
    static struct object object;
    struct error error = {0};
    struct ring_plan plan = {.slot_count = 2,
                             .batch_size = BATCH,
                             .field_count = 3,
                             .samples = 1000,
                             .world_size = 1,
                             .ragged_mean = 3000,
                             .ragged_usual = BATCH * 100,
                             .ragged_most = BATCH * 100,
                             .replaces = true};
    plan.fields[0] = (struct ring_field){.name = "text", .dtype = DTYPE_U8, .dimensions = 1, .ragged = 1};
    plan.fields[1] = (struct ring_field){"label", DTYPE_I64, 0, {0}, 8, 0};
    plan.fields[2] = (struct ring_field){.name = "ids", .dtype = DTYPE_I32, .dimensions = 1, .ragged = 1};
    if (ring_plan(&plan, &error) < 0 || ring_create(&plan, &object.fd, &object.read_fd, &error) < 0 ||
        ring_allocate_control(&plan, object.fd, &error) < 0 ||
        ring_allocate(&plan, object.fd, 0, plan.slot_count, &error) < 0 ||
        ring_map(&object.ring, object.fd, RING_FILL, &error) < 0 || ring_supervise(&object.ring, &error) < 0)
        fail_msg("%s", error.text);
    assert_true(object.ring.header->chunks_per_slot > 2);
    *state = &object;
    return 0;
}

static int end_object(void **state) {
    struct object *object = *state;
    ring_unmap(&object->ring);
    close_fd(&object->fd);
    close_fd(&object->read_fd);
    return 0;
}

// ---- What stands where -------------------------------------------------------------------------------------

static uint32_t length_of(uint32_t sample, uint32_t field) {
    return sample * 5 % LINES * (field == 1 ? 1 : 3);
}

static uint32_t item_of(uint32_t field) {
    return field == 1 ? 1 : 4;
}

static const struct ring_field *field_of(const struct ring *ring, uint32_t ragged) {
    return &ring->header->fields[ragged == 1 ? 0 : 2];
}

static int64_t *offsets_of(const struct ring *ring, uint32_t slot, uint32_t ragged) {
    return (int64_t *)(void *)(ring_slot_data(ring, slot) + field_of(ring, ragged)->slot_offset);
}

// As batch_places.c does, of a batch of which the skipped samples are left out at the end.
static void set_places(struct ring *ring, uint32_t slot, uint32_t count, const bool *bad) {
    uint32_t chunk_samples = ring->header->chunk_samples, chunks = (uint32_t)divide_up(count, chunk_samples);
    uint64_t *own = ring_own_places(ring, slot), at = ring->header->values_offset;
    for (uint32_t ragged = 1; ragged <= RAGGED; ragged++) {
        at = align_up(at, RING_VALUES_ALIGN);
        uint64_t delivered = at;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t bytes = (uint64_t)length_of(i, ragged) * item_of(ragged);
            if (i % chunk_samples == 0)
                own[i / chunk_samples * RAGGED + ragged - 1] = at;
            at += bytes;
            delivered += bad && bad[i] ? 0 : bytes;
        }
        own[chunks * RAGGED + ragged - 1] = at;
        own[(chunks + 1) * RAGGED + ragged - 1] = delivered;
    }
}

static void dispatch(struct ring *ring, uint32_t slot, uint32_t count) {
    const struct batch_place place = fixture_place(0, count, BATCH);
    set_places(ring, slot, count, NULL);
    memset(ring_own_attempts(ring, slot), 0, BATCH);
    assert_true(ring_dispatch(ring, slot, &(struct ring_batch){.run = 1}, &place));
}

static void fill_sample(struct ring *ring, const struct ring_claim *claim, uint32_t sample,
                        uint64_t at[RAGGED]) {
    uint8_t *data = ring_slot_data(ring, claim->slot);
    ((int64_t *)(void *)(data + ring->header->fields[1].slot_offset))[sample] = sample;
    for (uint32_t ragged = 1; ragged <= RAGGED; ragged++) {
        struct ring_values all;
        uint64_t bytes = (uint64_t)length_of(sample, ragged) * item_of(ragged);
        assert_true(ring_find_values(ring, claim->slot, ragged, 0, claim->chunk_count, &all));
        int64_t *offsets = offsets_of(ring, claim->slot, ragged);
        offsets[sample] = (int64_t)((at[ragged - 1] - all.begin) / item_of(ragged));
        memset(data + at[ragged - 1], (int)sample, bytes);
        at[ragged - 1] += bytes;
        if (claim->chunk + 1 == claim->chunk_count) // the last sample of the last chunk comes last
            offsets[sample + 1] = (int64_t)((at[ragged - 1] - all.begin) / item_of(ragged));
    }
}

// What a loader does with a chunk: bad samples have their place, and nothing in it.
static uint32_t fill_chunk(struct ring *ring, const struct ring_claim *claim, const bool *bad) {
    uint64_t at[RAGGED];
    uint32_t skipped = 0;
    for (uint32_t ragged = 1; ragged <= RAGGED; ragged++) {
        struct ring_values values;
        assert_true(ring_find_values(ring, claim->slot, ragged, claim->chunk, claim->chunk + 1, &values));
        at[ragged - 1] = values.begin;
    }
    for (uint32_t i = claim->first_sample; i < claim->first_sample + claim->count; i++) {
        fill_sample(ring, claim, i, at);
        if (!bad[i])
            continue;
        ring_skip_sample(ring, claim, i);
        skipped++;
    }
    return skipped;
}

static void fill_batch(struct ring *ring, const bool *bad) {
    struct ring_claim claim;
    while (ring_claim(ring, OWNER, &claim)) {
        assert_true(claim.chunk != RING_REPAIR_CHUNK);
        (void)!ring_chunk_done(ring, &claim, fill_chunk(ring, &claim, bad));
    }
}

static void close_up(struct ring *ring, uint32_t slot, uint32_t count, const bool *bad) {
    uint64_t skips[BATCH / 64 + 1];
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < count; i++)
        wanted += bad[i];
    assert_int_equal(ring_slot_poll(ring, slot), RING_SLOT_LACKING);
    assert_int_equal(ring_take_skips(ring, slot, skips), wanted);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(skips[i / 64] >> (i % 64) & 1, bad[i]);
    set_places(ring, slot, count, bad);
    ring_close_up(ring, slot, wanted);
    assert_int_equal(ring_slot_poll(ring, slot), RING_SLOT_FILLING);
}

// The samples that are left follow each other, as clients find them.
static void check(const struct ring *ring, uint32_t slot, uint32_t count, const bool *bad) {
    const uint8_t *data = ring_slot_data(ring, slot);
    const int64_t *labels = (const int64_t *)(const void *)(data + ring->header->fields[1].slot_offset);
    uint64_t end[RAGGED] = {0};
    uint32_t good = 0;
    for (uint32_t i = 0; i < count; i++)
        good += !bad[i];
    for (uint32_t k = 0; k < good; k++) {
        uint32_t sample = hole_source_in_order(ring_skips(ring, slot), good, count, k);
        assert_false(bad[sample]);
        assert_int_equal(labels[k], sample);
        for (uint32_t ragged = 1; ragged <= RAGGED; ragged++) {
            const int64_t *offsets = offsets_of(ring, slot, ragged);
            uint64_t begin = atomic_load(&ring_places(ring, slot)[ragged - 1]);
            assert_int_equal(offsets[k], end[ragged - 1]);
            end[ragged - 1] += length_of(sample, ragged);
            assert_int_equal(offsets[k + 1], end[ragged - 1]);
            for (uint64_t i = 0; i < (uint64_t)length_of(sample, ragged) * item_of(ragged); i++)
                assert_int_equal(data[begin + (uint64_t)offsets[k] * item_of(ragged) + i], (uint8_t)sample);
        }
    }
    assert_int_equal(ring_ragged_bytes(ring, slot), end[0] + 4 * end[1]);
    uint64_t row = (ring_dispatched(ring, slot)->chunk_count + 1) * (uint64_t)RAGGED;
    for (uint32_t i = 0; i < RAGGED; i++) // what clients read is what the supervisor keeps
        assert_int_equal(atomic_load(&ring_places(ring, slot)[row + i]),
                         ring_own_places(ring, slot)[row + i]);
}

static void repair(struct ring *ring, uint32_t slot) {
    struct ring_claim claim;
    assert_true(ring_claim(ring, OWNER, &claim));
    assert_int_equal(claim.chunk, RING_REPAIR_CHUNK);
    assert_int_equal(ring_repair(ring, &claim), 0);
    (void)!ring_chunk_done(ring, &claim, 0);
    assert_int_equal(ring_slot_poll(ring, slot), RING_SLOT_READY);
}

static void spoil(bool *bad, uint32_t pattern) {
    static uint64_t dice = 1;
    for (uint32_t i = 0; i < BATCH; i++) {
        dice = splitmix64(dice);
        bad[i] = pattern == 0   ? i == 0
                 : pattern == 1 ? i == BATCH - 1
                 : pattern == 2 ? true
                                : dice % pattern == 0;
    }
}

// ---- Tests -------------------------------------------------------------------------------------------------

static void samples_move_together(void **state) {
    struct ring *ring = &((struct object *)*state)->ring;
    static const uint32_t counts[] = {BATCH, BATCH - 1, 65, 64, 1};
    bool bad[BATCH];
    for (uint32_t round = 0; round < 60; round++) {
        uint32_t slot = round % 2, count = counts[round % COUNT_OF(counts)];
        spoil(bad, round < 3 ? round : 2 + round % 7);
        bad[count / 2] = true; // at least one
        dispatch(ring, slot, count);
        fill_batch(ring, bad);
        close_up(ring, slot, count, bad);
        repair(ring, slot);
        check(ring, slot, count, bad);
        ring_slot_free(ring, slot);
    }
}

static void a_batch_without_bad_samples_is_ready_at_once(void **state) {
    struct ring *ring = &((struct object *)*state)->ring;
    const bool none[BATCH] = {false};
    dispatch(ring, 0, BATCH);
    fill_batch(ring, none);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_READY);
    check(ring, 0, BATCH, none);
    ring_slot_free(ring, 0);
}

// It has moved some values over others, so nothing in the slot can be trusted.
static void a_loader_dies_in_a_repair(void **state) {
    struct ring *ring = &((struct object *)*state)->ring;
    bool bad[BATCH];
    struct ring_claim claim;
    spoil(bad, 4);
    dispatch(ring, 1, BATCH);
    fill_batch(ring, bad);
    close_up(ring, 1, BATCH, bad);
    assert_true(ring_claim(ring, 9, &claim));
    assert_int_equal(claim.chunk, RING_REPAIR_CHUNK);
    memset(ring_slot_data(ring, 1), 0xee, ring->header->slot_bytes);
    uint32_t chunks = ring_dispatched(ring, 1)->chunk_count;
    assert_int_equal(ring_recover(ring, 9), chunks);
    assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_FILLING);
    for (uint32_t i = 0; i < BATCH / 64 + 1; i++)
        assert_int_equal(atomic_load(&ring_skips(ring, 1)[i]), 0);
    // Others may be bad the next time.
    memmove(bad, bad + 1, BATCH - 1);
    fill_batch(ring, bad);
    close_up(ring, 1, BATCH, bad);
    repair(ring, 1);
    check(ring, 1, BATCH, bad);
    ring_slot_free(ring, 1);
}

static void lies_about_offsets_and_places_are_noticed(void **state) {
    struct ring *ring = &((struct object *)*state)->ring;
    bool bad[BATCH] = {[3] = true};
    const int64_t lies[] = {-1, INT64_MIN, INT64_MAX, 1 << 30, 0};
    struct ring_claim claim;
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        dispatch(ring, 0, BATCH);
        fill_batch(ring, bad);
        close_up(ring, 0, BATCH, bad);
        assert_true(ring_claim(ring, OWNER, &claim));
        offsets_of(ring, 0, 1 + i % RAGGED)[BATCH - 1 - i] = lies[i];
        assert_int_equal(ring_repair(ring, &claim), -EPROTO);
        (void)!ring_chunk_failed(ring, &claim, -EPROTO, UINT32_MAX, 0, 0);
        assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FAILED);
        ring_forget_failure(ring, 0);
        ring_slot_free(ring, 0);
    }
    dispatch(ring, 0, BATCH);
    fill_batch(ring, bad);
    close_up(ring, 0, BATCH, bad);
    assert_true(ring_claim(ring, OWNER, &claim));
    atomic_store(&ring_places(ring, 0)[0], ring->header->slot_bytes + 1);
    assert_int_equal(ring_repair(ring, &claim), -EPROTO);
    (void)!ring_chunk_done(ring, &claim, 0);
    ring_slot_free(ring, 0);
}

static void lies_about_bad_samples_are_noticed(void **state) {
    struct ring *ring = &((struct object *)*state)->ring;
    bool bad[BATCH] = {[3] = true, [BATCH - 2] = true};
    uint64_t skips[BATCH / 64 + 1];
    dispatch(ring, 0, BATCH - 1);
    fill_batch(ring, bad);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_LACKING);
    assert_int_equal(ring_take_skips(ring, 0, skips), 2);
    atomic_fetch_or(&ring_skips(ring, 0)[1], 1); // one more than was counted
    assert_int_equal(ring_take_skips(ring, 0, skips), 0);
    atomic_fetch_and(&ring_skips(ring, 0)[0], ~(1ull << 3)); // as many, but others
    assert_int_equal(ring_take_skips(ring, 0, skips), 2);
    atomic_fetch_and(&ring_skips(ring, 0)[1], ~1ull);
    atomic_fetch_or(&ring_skips(ring, 0)[(BATCH - 1) / 64], 1ull << ((BATCH - 1) % 64)); // not of the batch
    assert_int_equal(ring_take_skips(ring, 0, skips), 0);
    ring_slot_free(ring, 0);
}

// With on_error = replace.
static void attempts_reach_the_loaders(void **state) {
    struct ring *ring = &((struct object *)*state)->ring;
    const struct batch_place place = fixture_place(0, BATCH, BATCH);
    bool bad[BATCH] = {[0] = true, [70] = true};
    struct ring_claim claim;
    dispatch(ring, 1, BATCH);
    fill_batch(ring, bad);
    assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_LACKING);
    uint64_t fill = ring_dispatched(ring, 1)->fill;
    ring_own_attempts(ring, 1)[0] = 1;
    ring_own_attempts(ring, 1)[70] = 16;
    assert_int_equal(atomic_load(&ring_attempts(ring, 1)[70]), 0);
    ring_dispatch_again(ring, 1, &(struct ring_batch){.run = 1}, &place);
    assert_int_equal(ring_dispatched(ring, 1)->fill, fill + 1);
    assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_FILLING);
    memset(bad, 0, sizeof bad);
    assert_true(ring_claim(ring, OWNER, &claim));
    assert_int_equal(claim.slot, 1);
    for (uint32_t i = 0; i < BATCH; i++) {
        assert_int_equal(atomic_load(&ring_attempts(ring, 1)[i]), i == 0 ? 1 : i == 70 ? 16 : 0);
        assert_int_equal(atomic_load(&ring_attempts(ring, 0)[i]), 0);
    }
    (void)!ring_chunk_done(ring, &claim, fill_chunk(ring, &claim, bad));
    fill_batch(ring, bad);
    assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_READY);
    check(ring, 1, BATCH, bad);
    ring_slot_free(ring, 1);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_object, end_object)
    const struct CMUnitTest tests[] = {
        CASE(samples_move_together),
        CASE(a_batch_without_bad_samples_is_ready_at_once),
        CASE(a_loader_dies_in_a_repair),
        CASE(lies_about_offsets_and_places_are_noticed),
        CASE(lies_about_bad_samples_are_noticed),
        CASE(attempts_reach_the_loaders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
