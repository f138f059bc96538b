// A loader that has been taken over can write anything into a ring at any time. Whatever it writes, the supervisor's
// functions come to an end, touch nothing outside the ring, and answer RING_SLOT_BROKEN at worst; those of other
// loaders give out claims that lie inside the ring.
#include "shm/holes.h"
#include "tests/unit/ring_fixture.h"

#define SLOTS  4u
#define BATCH  100u
#define CHUNKS 5u

static struct ring ring;

static int begin(void **state) {
    (void)state;
    fixture_ring(&ring, &(struct ring_shape){SLOTS, BATCH, BATCH / CHUNKS, 2});
    return 0;
}

static int end(void **state) {
    (void)state;
    ring_unmap(&ring);
    return 0;
}

static void dispatch(uint32_t slot, uint64_t sequence) {
    struct batch_place place = fixture_place(sequence, BATCH, BATCH);
    assert_true(ring_dispatch(&ring, slot, &(struct ring_batch){.run = 1, .sequence = sequence}, &place));
}

static void set_chunks(uint32_t slot, uint64_t word) {
    for (uint32_t i = 0; i < CHUNKS; i++)
        atomic_store(&ring_chunks(&ring, slot)[i], word);
}

// ---- The supervisor ----------------------------------------------------------------------------------------

static void the_header_and_the_records_are_not_read_back(void **state) {
    (void)state;
    dispatch(0, 0);
    memset((void *)&ring.control->header, 0xff, sizeof ring.control->header);
    struct ring_slot *batch = ring_slot(&ring, 0);
    batch->chunk_count = batch->count = batch->skipped = UINT32_MAX;
    batch->fill = UINT64_MAX;
    assert_int_equal(ring_slot_poll(&ring, 0), RING_SLOT_FILLING);
    set_chunks(0, chunk_word(CHUNK_CLAIMED, 3, 0));
    assert_int_equal(ring_recover(&ring, 3), CHUNKS);
    set_chunks(0, chunk_word(CHUNK_DONE, 0, 0));
    assert_int_equal(ring_slot_poll(&ring, 0), RING_SLOT_READY);
    assert_int_equal(ring_dispatched(&ring, 0)->count, BATCH);
    assert_int_equal(ring_dispatched(&ring, 0)->skipped, 0);
    assert_false(ring_slot_busy(&ring, 0));
    ring_slot_free(&ring, 0);
    dispatch(0, 1);
}

static void words_that_no_loader_writes_are_told(void **state) {
    (void)state;
    static const uint64_t words[] = {
        CHUNK_IDLE, CHUNK_RECOVERED + 1, 0xff, UINT64_MAX, (uint64_t)CHUNK_DONE | (uint64_t)BATCH << 8,
    };
    for (uint32_t i = 0; i < COUNT_OF(words); i++) {
        dispatch(1, i);
        set_chunks(1, words[i]);
        assert_int_equal(ring_slot_poll(&ring, 1), RING_SLOT_BROKEN);
        ring_slot_free(&ring, 1);
    }
}

static void a_repair_is_not_done_before_it_was_asked_for(void **state) {
    (void)state;
    dispatch(0, 0);
    set_chunks(0, chunk_word(CHUNK_DONE, 0, 1));
    atomic_store(&ring_slot(&ring, 0)->repair, chunk_word(CHUNK_DONE, 0, 0));
    assert_int_equal(ring_slot_poll(&ring, 0), RING_SLOT_FILLING);
    assert_int_equal(ring_dispatched(&ring, 0)->skipped, CHUNKS);
    set_chunks(0, chunk_word(CHUNK_DONE, 0, 2)); // other numbers than those that it was asked for with
    assert_int_equal(ring_slot_poll(&ring, 0), RING_SLOT_BROKEN);
    set_chunks(0, chunk_word(CHUNK_DONE, 0, 1));
    atomic_store(&ring_slot(&ring, 0)->repair, chunk_word(CHUNK_IDLE, 0, 0));
    assert_int_equal(ring_slot_poll(&ring, 0), RING_SLOT_BROKEN);
}

static void a_cursor_anywhere_does_not_hang_the_queue(void **state) {
    (void)state;
    static const uint64_t cursors[] = {0, 1, UINT64_MAX, UINT64_MAX - CHUNKS, 1ull << 63, 7};
    for (uint64_t sequence = 0; sequence < 600; sequence++) {
        struct batch_place place = fixture_place(sequence, BATCH, BATCH);
        atomic_store(&ring.control->claim_cursor, cursors[sequence % COUNT_OF(cursors)]);
        atomic_store(&ring.control->queue_head, sequence * 977);
        for (uint32_t entry = 0; entry < ring.header->queue_entries; entry++)
            atomic_store(ring_queue_entry(&ring, entry), UINT32_MAX - entry);
        (void)ring_unclaimed(&ring);
        if (ring_dispatch(&ring, 0, &(struct ring_batch){.sequence = sequence}, &place))
            ring_slot_free(&ring, 0);
    }
}

static void a_failure_has_a_code(void **state) {
    (void)state;
    static const int codes[] = {INT32_MIN, 0, 5, -4096, INT32_MAX};
    for (uint32_t i = 0; i < COUNT_OF(codes); i++) {
        struct ring_error failure;
        ring.control->failure.code = codes[i];
        ring.control->failure.slot = UINT32_MAX;
        atomic_store(&ring.control->failure.state, RING_FAILURE_COMPLETE);
        ring_forget_failure(&ring, 0);
        assert_true(ring_take_failure(&ring, &failure));
        assert_int_equal(failure.code, -EIO);
    }
}

// ---- Other loaders -----------------------------------------------------------------------------------------

static void claims_lie_inside_the_ring(void **state) {
    (void)state;
    uint64_t random = 20;
    uint32_t claims = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        struct ring_claim claim;
        uint32_t slot = (uint32_t)(fixture_random(&random) % SLOTS);
        struct ring_slot *batch = ring_slot(&ring, slot);
        for (uint32_t i = 0; i < sizeof *batch / 8; i++)
            ((uint64_t *)(void *)batch)[i] = fixture_random(&random) >> fixture_random(&random) % 64;
        set_chunks(slot, fixture_random(&random) % 6);
        atomic_store(ring_queue_entry(&ring, round), (uint32_t)(fixture_random(&random) % (SLOTS + 2)));
        atomic_store(&ring.control->queue_head, round);
        atomic_store(&ring.control->urgent_wanted, round);
        atomic_store(&ring_skips(&ring, slot)[0], fixture_random(&random));
        if (!ring_claim(&ring, 9, &claim))
            continue;
        claims++;
        assert_in_range(claim.slot, 0, SLOTS - 1);
        assert_in_range(claim.chunk_count, 0, CHUNKS);
        assert_in_range(claim.count, 1, BATCH);
        assert_true(claim.first_sample + claim.count <= BATCH);
        if (claim.chunk == RING_REPAIR_CHUNK)
            ring_repair(&ring, &claim);
        (void)!ring_chunk_done(&ring, &claim, 0);
    }
    assert_true(claims > 1000);
}

static void a_cursor_out_of_place_is_noticed(void **state) {
    (void)state;
    uint32_t entries = ring.header->queue_entries;
    struct ring_claim claim;
    assert_true(ring_queue_is_sound(&ring));
    for (uint64_t sequence = 0; sequence < 3ull * entries; sequence++) {
        dispatch(0, sequence);
        while (ring_claim(&ring, 9, &claim)) {
            assert_true(ring_queue_is_sound(&ring));
            (void)!ring_chunk_done(&ring, &claim, 0);
        }
        ring_slot_free(&ring, 0);
    }
    assert_true(ring_queue_is_sound(&ring));
    atomic_store(&ring.control->claim_cursor, (3ull * entries + 1) * ring.header->chunks_per_slot);
    assert_false(ring_queue_is_sound(&ring));
    atomic_store(&ring.control->claim_cursor, (2ull * entries) * ring.header->chunks_per_slot);
    assert_true(ring_queue_is_sound(&ring));
    atomic_store(&ring.control->claim_cursor, (2ull * entries) * ring.header->chunks_per_slot - 1);
    assert_false(ring_queue_is_sound(&ring));
    atomic_store(&ring.control->claim_cursor, UINT64_MAX);
    assert_false(ring_queue_is_sound(&ring));
}

// Without a bound, this walks over 2^63 entries.
static void a_head_far_ahead_does_not_hold_a_loader(void **state) {
    (void)state;
    struct ring_claim claim;
    dispatch(0, 0);
    atomic_store(&ring.control->queue_head, 1ull << 63);
    assert_false(ring_claim(&ring, 9, &claim));
    atomic_store(&ring.control->queue_head, UINT64_MAX);
    assert_false(ring_claim(&ring, 9, &claim));
    atomic_store(&ring.control->queue_head, ring.header->queue_entries);
    assert_true(ring_claim(&ring, 9, &claim));
}

// ---- All of it at random -----------------------------------------------------------------------------------

static void nothing_that_is_written_leads_the_supervisor_astray(void **state) {
    (void)state;
    uint64_t random = 7, sequence = 0, bytes = ring.header->data_offset;
    uint32_t outcomes[RING_SLOT_BROKEN + 1] = {0};
    bool used[SLOTS] = {false};
    for (uint32_t round = 0; round < 20000; round++) {
        for (int i = 0; i < 8; i++)
            ((_Atomic uint8_t *)ring.control)[fixture_random(&random) % bytes] =
                (uint8_t)fixture_random(&random);
        uint32_t slot = (uint32_t)(fixture_random(&random) % SLOTS);
        struct batch_place place = fixture_place(sequence, BATCH, BATCH);
        if (!used[slot]) {
            struct ring_batch name = {.sequence = sequence};
            used[slot] = ring_dispatch(&ring, slot, &name, &place);
            sequence++;
            continue;
        }
        if (fixture_random(&random) % 2)
            set_chunks(slot, chunk_word(CHUNK_DONE, 0, 0));
        outcomes[ring_slot_poll(&ring, slot)]++;
        (void)ring_slot_busy(&ring, slot);
        ring_recover(&ring, (uint32_t)fixture_random(&random) % 4);
        if (fixture_random(&random) % 2 == 0)
            continue;
        ring_slot_free(&ring, slot);
        used[slot] = false;
    }
    assert_true(outcomes[RING_SLOT_READY] > 100 && outcomes[RING_SLOT_FILLING] > 100);
    assert_true(outcomes[RING_SLOT_BROKEN] > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_header_and_the_records_are_not_read_back, begin, end),
        cmocka_unit_test_setup_teardown(words_that_no_loader_writes_are_told, begin, end),
        cmocka_unit_test_setup_teardown(a_repair_is_not_done_before_it_was_asked_for, begin, end),
        cmocka_unit_test_setup_teardown(a_cursor_anywhere_does_not_hang_the_queue, begin, end),
        cmocka_unit_test_setup_teardown(a_failure_has_a_code, begin, end),
        cmocka_unit_test_setup_teardown(claims_lie_inside_the_ring, begin, end),
        cmocka_unit_test_setup_teardown(a_cursor_out_of_place_is_noticed, begin, end),
        cmocka_unit_test_setup_teardown(a_head_far_ahead_does_not_hold_a_loader, begin, end),
        cmocka_unit_test_setup_teardown(nothing_that_is_written_leads_the_supervisor_astray, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
