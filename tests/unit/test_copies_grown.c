// Copies to slots of a pool that have grown, and to slots that should have.
#include "tests/unit/copies_fixture.h"

// Its sequence word stays where it was.
static void a_slot_that_has_grown_is_copied_to_its_own_memory(void **state) {
    (void)state;
    struct gpu_memory own[SLOTS] = {0};
    const uint64_t bytes = 2 * at.source.header->slot_bytes;
    int fd = -1;
    assert_done(gpu_create(at.gpu, bytes, &own[3], &fd, &said));
    at.slots.own = own;
    for (uint32_t slot = 2; slot < 5; slot++)
        dispatch(slot, slot, BATCH, 0);
    settle();
    check_slot(2);
    check_slot(4);
    assert_true(is_copied(3));
    assert_int_equal(word_of(3), 1);
    assert_memory_equal((void *)(uintptr_t)own[3].address, ring_slot_data(&at.source, 3),
                        at.source.header->fields[1].slot_offset);
    const uint8_t *first = (const uint8_t *)(uintptr_t)at.slots.first.address;
    for (uint64_t i = 3 * at.slots.first_bytes; i < 4 * at.slots.first_bytes; i++)
        assert_int_equal(first[i], 0);
    at.slots.own = NULL;
    gpu_free(at.gpu, &own[3]);
    close_fd(&fd);
}

// The supervisor lets no such batch be copied.
static void nothing_is_copied_beyond_a_slots_memory(void **state) {
    (void)state;
    const uint8_t *first = (const uint8_t *)(uintptr_t)at.slots.first.address;
    at.slots.first_bytes = 64;
    dispatch(3, 5, BATCH, 0);
    settle();
    assert_true(is_copied(3));
    assert_int_equal(at.copies.copied_bytes, 64);
    for (uint64_t i = 4ull * 64; i < 5ull * 64; i++)
        assert_int_equal(first[i], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_slot_that_has_grown_is_copied_to_its_own_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_copied_beyond_a_slots_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
