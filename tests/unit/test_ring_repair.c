// Batches with samples that could not be read: the holes, their repair, and what a dead loader's marks
// become.
#include "base/sizes.h"
#include "order/partition.h"
#include "shm/ring_loader.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/ring_fixture.h"

#define BATCH 100u
#define CHUNK 30u // 30 + 30 + 30 + 10: chunks share words of the skip bits

static const struct ring_shape shape = {.slots = 2, .batch = BATCH, .chunk_samples = CHUNK, .words = 3};

static int open_ring(void **state) {
    return fixture_set_up(state, &shape);
}

static void dispatch(struct ring *ring, uint32_t slot, uint64_t sequence, uint64_t count) {
    struct batch_place place = fixture_place(sequence, count, BATCH);
    assert_true(ring_dispatch(ring, slot, &(struct ring_batch){.run = 1, .sequence = sequence}, &place));
}

// Fills a claim but for the samples of the batch that `bad` names; those hold rubbish.
static uint32_t fill_around(struct ring *ring, const struct ring_claim *claim, const bool bad[BATCH]) {
    uint32_t skipped = 0;
    fixture_fill(ring, claim);
    for (uint32_t i = claim->first_sample; i < claim->first_sample + claim->count; i++)
        if (bad[i]) {
            fixture_fill_sample(ring, claim->slot, i, UINT64_C(0xbadbadbad));
            ring_skip_sample(ring, claim, i);
            skipped++;
        }
    return skipped;
}

static void fill_batch(struct ring *ring, const bool bad[BATCH]) {
    struct ring_claim claim;
    while (ring_claim(ring, 1, &claim)) {
        assert_int_not_equal(claim.chunk, RING_REPAIR_CHUNK);
        (void)!ring_chunk_done(ring, &claim, fill_around(ring, &claim, bad));
    }
}

static struct ring_claim claim_repair(struct ring *ring, uint32_t owner) {
    struct ring_claim claim;
    assert_true(ring_claim(ring, owner, &claim));
    assert_int_equal(claim.chunk, RING_REPAIR_CHUNK);
    return claim;
}

// The rule, said in another way: walk over the batch; a hole takes the first readable sample not taken yet
// from behind the end.
static void assert_repaired(const struct ring *ring, uint32_t slot, const bool bad[BATCH]) {
    const struct ring_slot *batch = ring_slot(ring, slot);
    uint32_t moved[BATCH], moves = 0, next = 0, skipped = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        skipped += bad[i];
    assert_int_equal(batch->skipped, skipped);
    uint32_t good = batch->count - skipped;
    for (uint32_t i = good; i < batch->count; i++)
        if (!bad[i])
            moved[moves++] = i;
    for (uint32_t i = 0; i < good; i++) {
        uint32_t source = bad[i] ? moved[next++] : i;
        assert_true(
            fixture_sample_is(ring, slot, i, fixture_call(batch->epoch, batch->first_position + source)));
    }
    assert_int_equal(next, moves);
}

static void repair(struct ring *ring, uint32_t slot) {
    assert_int_equal(ring_slot_poll(ring, slot), RING_SLOT_FILLING);
    struct ring_claim claim = claim_repair(ring, 2);
    assert_int_equal(claim.slot, slot);
    assert_int_equal(claim.count, ring_slot(ring, slot)->count);
    assert_int_equal(ring_slot_poll(ring, slot), RING_SLOT_FILLING);
    ring_repair(ring, &claim);
    ring_supervisor_arm(ring);
    assert_true(ring_chunk_done(ring, &claim, 0));
    assert_int_equal(ring_slot_poll(ring, slot), RING_SLOT_READY);
}

static void run_batch(struct ring *ring, uint64_t sequence, uint32_t count, const bool bad[BATCH]) {
    bool any = false;
    for (uint32_t i = 0; i < count; i++)
        any |= bad[i];
    dispatch(ring, 0, sequence, count);
    fill_batch(ring, bad);
    if (any)
        repair(ring, 0);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_READY);
    assert_repaired(ring, 0, bad);
    struct ring_claim claim;
    assert_false(ring_claim(ring, 1, &claim));
    ring_slot_free(ring, 0);
    assert_int_equal(atomic_load(&ring_slot(ring, 0)->repair), CHUNK_IDLE);
}

static void test_holes_anywhere(void **state) {
    uint64_t random = 1;
    for (uint64_t sequence = 0; sequence < 2000; sequence++) {
        bool bad[BATCH] = {false};
        uint32_t count = 1 + (uint32_t)(fixture_random(&random) % BATCH);
        uint64_t share = fixture_random(&random) % 5; // of 4: none to all
        for (uint32_t i = 0; i < count; i++)
            bad[i] = fixture_random(&random) % 4 < share;
        run_batch(*state, sequence, count, bad);
    }
}

static void test_holes_at_the_edges(void **state) {
    static const uint32_t holes[][3] = {{0, 0, 0},    {99, 99, 99}, {0, 99, 50},
                                        {29, 30, 31}, {63, 64, 65}, {97, 98, 99}};
    for (size_t i = 0; i < COUNT_OF(holes); i++) {
        bool bad[BATCH] = {false};
        for (int k = 0; k < 3; k++)
            bad[holes[i][k]] = true;
        run_batch(*state, i, BATCH, bad);
    }
}

static void test_a_batch_of_which_nothing_could_be_read(void **state) {
    bool bad[BATCH];
    memset(bad, true, sizeof bad);
    run_batch(*state, 0, BATCH, bad);
    assert_int_equal(ring_slot(*state, 0)->skipped, BATCH);
}

// Killed after some samples have been moved: the next one starts again, and the result is the same.
static void test_a_repair_that_was_broken_off(void **state) {
    struct ring *ring = *state;
    bool bad[BATCH] = {[3] = true, [17] = true, [64] = true, [95] = true, [99] = true};
    dispatch(ring, 1, 0, BATCH);
    fill_batch(ring, bad);
    assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_FILLING);
    struct ring_claim claim = claim_repair(ring, 5);
    fixture_fill_sample(ring, 1, 3, fixture_call(3, 96));
    fixture_fill_sample(ring, 1, 17, UINT64_C(0x5eed)); // half a move
    struct ring_claim none;
    assert_false(ring_claim(ring, 6, &none));
    assert_int_equal(ring_recover(ring, 5), 1);
    claim = claim_repair(ring, 6);
    ring_repair(ring, &claim);
    (void)!ring_chunk_done(ring, &claim, 0);
    assert_int_equal(ring_slot_poll(ring, 1), RING_SLOT_READY);
    assert_repaired(ring, 1, bad);
    ring_repair(ring, &claim); // and once more on top
    assert_repaired(ring, 1, bad);
}

static void test_a_repair_can_fail(void **state) {
    struct ring *ring = *state;
    bool bad[BATCH] = {[1] = true};
    struct ring_error failure;
    dispatch(ring, 0, 0, BATCH);
    fill_batch(ring, bad);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FILLING);
    struct ring_claim claim = claim_repair(ring, 5);
    assert_true(ring_slot_busy(ring, 0));
    (void)!ring_chunk_failed(ring, &claim, -ENOMEM, 0, 0, 0);
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FAILED);
    assert_true(ring_take_failure(ring, &failure));
    assert_int_equal(failure.code, -ENOMEM);
}

// What one loader had marked when it died may be readable for the next; marks of others in the same words
// stay.
static void test_marks_of_a_dead_loader_are_forgotten(void **state) {
    struct ring *ring = *state;
    bool bad[BATCH] = {[29] = true, [60] = true}, dead[BATCH];
    memset(dead, true, sizeof dead);
    dispatch(ring, 0, 0, BATCH);
    struct ring_claim claim, lost;
    assert_true(ring_claim(ring, 1, &claim));
    (void)!ring_chunk_done(ring, &claim, fill_around(ring, &claim, bad));
    assert_true(ring_claim(ring, 7, &lost));
    fill_around(ring, &lost, dead);
    while (ring_claim(ring, 1, &claim))
        (void)!ring_chunk_done(ring, &claim, fill_around(ring, &claim, bad));
    assert_int_equal(ring_recover(ring, 7), 1);
    fill_batch(ring, bad);
    repair(ring, 0);
    assert_repaired(ring, 0, bad);
}

// The last chunk has fewer samples than the others: the marks after its end are the next slot's.
static void test_marks_of_other_slots_stay_when_a_loader_dies(void **state) {
    (void)state;
    struct ring ring;
    struct ring_claim claim;
    fixture_ring(&ring, &(struct ring_shape){.slots = 2, .batch = 64, .chunk_samples = 13, .words = 1});
    for (uint32_t slot = 0; slot < 2; slot++) {
        struct batch_place place = fixture_place(slot, 64, 64);
        assert_true(ring_dispatch(&ring, slot, &(struct ring_batch){.sequence = slot}, &place));
    }
    for (uint32_t i = 0; i < 10; i++) {
        assert_true(ring_claim(&ring, 1, &claim));
        for (uint32_t k = 0; k < claim.count; k++)
            ring_skip_sample(&ring, &claim, claim.first_sample + k);
        if (claim.slot == 1)
            (void)!ring_chunk_done(&ring, &claim, claim.count);
    }
    assert_int_equal(ring_recover(&ring, 1), 5);
    assert_int_equal(atomic_load(&ring_skips(&ring, 0)[0]), 0);
    assert_int_equal(atomic_load(&ring_skips(&ring, 1)[0]), UINT64_MAX);
    ring_unmap(&ring);
}

// A batch that failed leaves marks and no count of them; the next one in its slot must not inherit them.
static void test_marks_of_a_failed_batch_are_forgotten(void **state) {
    struct ring *ring = *state;
    bool all[BATCH], one[BATCH] = {[5] = true};
    memset(all, true, sizeof all);
    struct ring_claim claim;
    dispatch(ring, 0, 0, BATCH);
    while (ring_claim(ring, 1, &claim)) {
        fill_around(ring, &claim, all);
        (void)!ring_chunk_failed(ring, &claim, -EIO, 0, 0, 0);
    }
    assert_int_equal(ring_slot_poll(ring, 0), RING_SLOT_FAILED);
    ring_slot_free(ring, 0);
    run_batch(ring, 1, BATCH, one);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, open_ring, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_holes_anywhere),
        CASE(test_holes_at_the_edges),
        CASE(test_a_batch_of_which_nothing_could_be_read),
        CASE(test_a_repair_that_was_broken_off),
        CASE(test_a_repair_can_fail),
        CASE(test_marks_of_a_dead_loader_are_forgotten),
        cmocka_unit_test(test_marks_of_other_slots_stay_when_a_loader_dies),
        CASE(test_marks_of_a_failed_batch_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
