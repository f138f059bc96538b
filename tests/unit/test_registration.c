// Pinning a ring in pieces: of whole slots, each at most as large as may be, and back to nothing when one cannot be
// had; and the tails of slots that grow.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/transfer/registration.h"

static struct gpu *gpu;
static struct ring_header header;
static struct ring ring = {.header = &header};
static struct registration registration;
static struct error said;

// Address space alone: a simulated GPU touches nothing of what is registered.
static int begin(uint64_t slot_bytes, uint32_t slots) {
    header = (struct ring_header){.slot_bytes = slot_bytes, .slot_count = slots};
    ring.mapped_bytes = slot_bytes * slots;
    ring.data = mmap(NULL, ring.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(ring.data != MAP_FAILED);
    return registration_begin(&registration, gpu, &ring, &said);
}

static int set_up(void **state) {
    (void)state;
    return gpu_open(&gpu, "HOST-0", &said);
}

static int tear_down(void **state) {
    (void)state;
    munmap(ring.data, ring.mapped_bytes);
    gpu_close(gpu);
    return 0;
}

static int hold(uint64_t from, uint64_t bytes) {
    uint64_t address;
    return gpu_host_register(gpu, ring.data + from, bytes, true, &address, &said);
}

// Nothing of it is registered.
static void assert_free(uint64_t from, uint64_t bytes) {
    for (uint64_t at = from; at < from + bytes; at += GPU_REGISTER_MOST) {
        assert_int_equal(hold(at, min_u64(GPU_REGISTER_MOST, from + bytes - at)), 0);
        gpu_host_unregister(gpu, ring.data + at);
    }
}

static void pieces_are_of_whole_slots(void **state) {
    (void)state;
    assert_int_equal(begin(100 * MIB, 5), 0);
    static const uint64_t done[] = {200, 400, 500};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(registration_step(&registration, &said), i < 2);
        assert_int_equal(registration.done_bytes, done[i] * MIB);
    }
    assert_int_equal(registration_step(&registration, &said), 0);
    assert_int_not_equal(hold(0, MIB), 0);
    assert_int_not_equal(hold(499 * MIB, MIB), 0);
    registration_end(&registration);
    assert_int_equal(registration.done_bytes, 0);
    assert_free(0, 500 * MIB);
    registration_end(&registration); // harmless
}

static void a_small_ring_is_one_piece(void **state) {
    (void)state;
    assert_int_equal(begin(4096, 16), 0);
    assert_int_equal(registration_step(&registration, &said), 0);
    assert_int_equal(registration.done_bytes, 65536);
    registration_end(&registration);
    assert_free(0, 65536);
}

static void the_largest_slot_is_a_piece(void **state) {
    (void)state;
    assert_int_equal(begin(GPU_REGISTER_MOST, 2), 0);
    assert_int_equal(registration_step(&registration, &said), 1);
    assert_int_equal(registration_step(&registration, &said), 0);
    registration_end(&registration);
}

static void a_larger_one_is_refused_in_words(void **state) {
    (void)state;
    assert_int_equal(begin(GPU_REGISTER_MOST + 4096, 2), -EOVERFLOW);
    assert_non_null(strstr(said.text, "smaller batches"));
}

static void nothing_is_left_when_a_piece_cannot_be_had(void **state) {
    (void)state;
    assert_int_equal(begin(100 * MIB, 7), 0);
    assert_int_equal(hold(450 * MIB, MIB), 0);
    assert_int_equal(registration_step(&registration, &said), 1);
    assert_int_equal(registration_step(&registration, &said), 1);
    assert_int_equal(registration_step(&registration, &said), -EIO);
    assert_int_equal(registration.done_bytes, 0);
    assert_free(0, 400 * MIB);
    gpu_host_unregister(gpu, ring.data + 450 * MIB);
    assert_free(0, 700 * MIB);
}

// ---- Slots that grow ---------------------------------------------------------------------------------------

// Three slots of 64 pages, of which each has 16 at first.
#define SLOT (64ull * RING_PAGE)
#define HEAD (16ull * RING_PAGE)

static void begin_ragged_with(uint64_t slot_bytes) {
    header = (struct ring_header){
        .slot_bytes = slot_bytes, .slot_count = 3, .ragged_count = 1, .slot_allocated_bytes = HEAD};
    ring.mapped_bytes = 3 * slot_bytes;
    ring.data = mmap(NULL, ring.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(ring.data != MAP_FAILED);
    assert_int_equal(registration_begin(&registration, gpu, &ring, &said), 0);
    while (registration_step(&registration, &said) == 1)
        ;
    assert_int_equal(registration.done_bytes, 3 * HEAD);
}

static void begin_ragged(void) {
    begin_ragged_with(SLOT);
}

static void cover(uint32_t slot, uint64_t bytes) {
    assert_int_equal(registration_cover(&registration, slot, bytes, &said), 0);
}

static void a_tail_is_pinned_when_a_batch_needs_it(void **state) {
    (void)state;
    begin_ragged();
    for (uint32_t slot = 0; slot < 3; slot++)
        assert_free(slot * SLOT + HEAD, SLOT - HEAD);
    cover(1, 0);
    cover(1, HEAD);
    assert_int_equal(registration.tail_bytes, 0);
    cover(1, HEAD + 1);
    assert_int_equal(registration.tail_bytes, RING_PAGE);
    cover(1, HEAD + RING_PAGE); // it is there
    assert_int_equal(registration.tail_bytes, RING_PAGE);
    cover(1, SLOT);
    assert_int_equal(registration.tail_bytes, SLOT - HEAD);
    cover(1, HEAD + 1); // it stays
    assert_int_equal(registration.tail_bytes, SLOT - HEAD);
    assert_int_not_equal(hold(2 * SLOT - RING_PAGE, RING_PAGE), 0);
    assert_free(HEAD, SLOT - HEAD);
    assert_free(2 * SLOT + HEAD, SLOT - HEAD);
    cover(0, HEAD + 9 * RING_PAGE);
    assert_int_equal(registration.tail_bytes, SLOT - HEAD + 9 * RING_PAGE);
    registration_end(&registration);
    assert_free(0, 3 * SLOT);
    registration_end(&registration); // harmless
}

static void a_tail_that_cannot_be_had_leaves_none(void **state) {
    (void)state;
    begin_ragged();
    cover(2, HEAD + RING_PAGE);
    assert_int_equal(hold(2 * SLOT + HEAD + 5 * RING_PAGE, RING_PAGE), 0);
    assert_int_equal(registration_cover(&registration, 2, HEAD + 9 * RING_PAGE, &said), -EIO);
    assert_int_equal(registration.tail_bytes, 0);
    assert_free(2 * SLOT + HEAD, 5 * RING_PAGE);
    gpu_host_unregister(gpu, ring.data + 2 * SLOT + HEAD + 5 * RING_PAGE);
    cover(2, HEAD + 9 * RING_PAGE);
    assert_int_equal(registration.tail_bytes, 9 * RING_PAGE);
    registration_end(&registration);
    assert_free(0, 3 * SLOT);
}

// Where a copy may go from byte 0 to `bytes` without crossing from one registration into another.
static uint32_t runs(uint64_t bytes) {
    uint32_t count = 0;
    for (uint64_t at = 0; at < bytes; at += registration_run(&registration, at))
        count++;
    return count;
}

static void a_tail_may_be_larger_than_a_piece(void **state) {
    (void)state;
    const uint64_t slot = 4ull * GPU_REGISTER_MOST, most = GPU_REGISTER_MOST;
    begin_ragged_with(slot);
    assert_int_equal(runs(HEAD), 1);
    assert_int_equal(runs(HEAD + most), 2);
    assert_int_equal(runs(HEAD + most + 1), 3);
    assert_int_equal(registration_run(&registration, HEAD + most + RING_PAGE), most - RING_PAGE);
    for (uint64_t pages = 1; pages < 4; pages++) { // the third piece grows
        cover(1, HEAD + 2 * most + pages * RING_PAGE);
        assert_int_equal(registration.tail_bytes, 2 * most + pages * RING_PAGE);
        assert_free(slot + HEAD + registration.tail_bytes, slot - HEAD - registration.tail_bytes);
        for (uint64_t at = 0; at < registration.tail_bytes; at += most)
            assert_int_not_equal(hold(slot + HEAD + at, RING_PAGE), 0);
    }
    registration_end(&registration);
    assert_int_equal(registration.tail_bytes, 0);
    assert_free(0, 3 * slot);
}

static void of_a_tail_that_cannot_be_had_the_whole_pieces_stay(void **state) {
    (void)state;
    const uint64_t slot = 4ull * GPU_REGISTER_MOST, most = GPU_REGISTER_MOST;
    begin_ragged_with(slot);
    cover(1, HEAD + most + RING_PAGE);
    assert_int_equal(hold(slot + HEAD + most + 5 * RING_PAGE, RING_PAGE), 0);
    assert_int_equal(registration_cover(&registration, 1, HEAD + 2 * most, &said), -EIO);
    assert_int_equal(registration.tail_bytes, most);
    gpu_host_unregister(gpu, ring.data + slot + HEAD + most + 5 * RING_PAGE);
    cover(1, HEAD + 2 * most);
    assert_int_equal(registration.tail_bytes, 2 * most);
    registration_end(&registration);
    assert_free(0, 3 * slot);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces_are_of_whole_slots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_small_ring_is_one_piece, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_largest_slot_is_a_piece, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_larger_one_is_refused_in_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tail_may_be_larger_than_a_piece, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_a_tail_that_cannot_be_had_the_whole_pieces_stay, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_left_when_a_piece_cannot_be_had, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tail_is_pinned_when_a_batch_needs_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tail_that_cannot_be_had_leaves_none, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
