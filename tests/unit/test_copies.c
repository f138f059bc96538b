// The copies of one pool on a simulated GPU: when they wait for whom, what they leave in the slots, what the next
// process makes of those that its predecessor had claimed.
#include "tests/unit/copies_fixture.h"

// ---- Consumers ---------------------------------------------------------------------------------------------

static _Atomic uint64_t *add_consumer(uint32_t consumer) {
    void *words = mmap(NULL, RING_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(words != MAP_FAILED);
    at.copies.consumers[consumer] = (struct release_words){words, RING_PAGE};
    return words;
}

// Who is waited for, by copies claimed before `before`; 0 nobody.
static uint64_t held_up(uint64_t before) {
    uint64_t since[RING_MAX_CONSUMERS];
    uint64_t consumers = copies_held_up(&at.copies, before, since);
    for (uint32_t i = 0; i < RING_MAX_CONSUMERS; i++)
        assert_true(!(consumers >> i & 1) || since[i] < before);
    return consumers;
}

static void a_batch_is_copied_and_both_words_say_so(void **state) {
    (void)state;
    bool wake = false;
    ring_supervisor_arm(&at.pool);
    dispatch(3, 5, BATCH, 0);
    assert_done(copies_step(&at.copies, 1, &wake, &said));
    assert_false(wake);
    assert_false(is_copied(3));
    assert_false((at.copies.waiting_count + at.copies.under_way_count == 0));
    assert_done(gpu_synchronize(at.gpu, &said));
    assert_done(copies_step(&at.copies, 2, &wake, &said));
    assert_true(wake);
    check_slot(3);
    assert_int_equal(ring_slot(&at.pool, 3)->fill, 1);
    assert_true((at.copies.waiting_count + at.copies.under_way_count == 0));
    assert_int_equal(at.copies.copied, 1);
    assert_int_equal(at.copies.bytes_under_way, 0);
    assert_int_equal(word_of(2), 0);
}

static void what_has_not_been_released_is_not_overwritten(void **state) {
    (void)state;
    _Atomic uint64_t *first = add_consumer(0), *second = add_consumer(7);
    dispatch(0, 0, BATCH, 0);
    settle();
    release_slot(0);
    dispatch(0, 1, BATCH, 1ull << 0 | 1ull << 7);
    settle();
    assert_false(is_copied(0));
    assert_int_equal(word_of(0), 1);
    assert_int_equal(held_up(at.now), 1ull << 0 | 1ull << 7);
    atomic_store(&first[0], 1);
    settle();
    assert_int_equal(held_up(at.now), 1ull << 7);
    atomic_store(&second[1], 1); // of another slot
    settle();
    assert_false(is_copied(0));
    atomic_store(&second[0], 1);
    settle();
    check_slot(0);
    assert_int_equal(word_of(0), 2);
    assert_int_equal(held_up(at.now), 0);
}

// Slots whose consumers are done are copied into, even if others wait before them.
static void releases_come_out_of_order(void **state) {
    (void)state;
    _Atomic uint64_t *words = add_consumer(3);
    for (uint32_t slot = 0; slot < 4; slot++)
        dispatch(slot, slot, BATCH, 0);
    settle();
    for (uint32_t slot = 0; slot < 4; slot++) {
        release_slot(slot);
        dispatch(slot, slot, BATCH, 1ull << 3);
    }
    static const uint32_t order[] = {2, 0, 3, 1};
    for (uint32_t i = 0; i < 4; i++) {
        settle();
        for (uint32_t k = i; k < 4; k++)
            assert_false(is_copied(order[k]));
        atomic_store(&words[order[i]], 1);
        settle();
        check_slot(order[i]);
    }
    assert_true((at.copies.waiting_count + at.copies.under_way_count == 0));
}

// Each copy waits for itself: one whose turn has come since does not make the others younger.
static void who_is_waited_for_goes_by_each_copys_own_time(void **state) {
    (void)state;
    _Atomic uint64_t *words = add_consumer(0);
    add_consumer(1);
    for (uint32_t slot = 0; slot < 3; slot++)
        dispatch(slot, slot, BATCH, 0);
    settle();
    uint64_t times[3];
    for (uint32_t slot = 0; slot < 3; slot++) {
        release_slot(slot);
        dispatch(slot, slot, BATCH, slot == 2 ? 1ull << 1 : 1ull << 0);
        times[slot] = at.now;
        settle();
    }
    uint64_t since[RING_MAX_CONSUMERS];
    assert_int_equal(held_up(times[0]), 0);
    assert_int_equal(held_up(times[0] + 1), 1ull << 0);
    assert_int_equal(held_up(times[2] + 1), 1ull << 0 | 1ull << 1);
    atomic_store(&words[0], 1);
    settle();
    assert_int_equal(copies_held_up(&at.copies, times[1] + 1, since), 1ull << 0);
    assert_int_equal(since[0], times[1]);
    atomic_store(&words[1], 1);
    settle();
    assert_int_equal(copies_held_up(&at.copies, at.now, since), 1ull << 1);
    assert_int_equal(since[1], times[2]);
}

// Its words come by a message, and what it had in hand by the ring, which is faster.
static void one_whose_words_are_not_here_yet_has_released_nothing(void **state) {
    (void)state;
    dispatch(0, 0, BATCH, 0);
    settle();
    release_slot(0);
    dispatch(0, 1, BATCH, 1ull << 5);
    settle();
    assert_false(is_copied(0));
    atomic_store(&add_consumer(5)[0], 1);
    settle();
    check_slot(0);
}

static void one_who_is_gone_is_not_waited_for(void **state) {
    (void)state;
    add_consumer(5);
    dispatch(0, 0, BATCH, 0);
    settle();
    release_slot(0);
    dispatch(0, 1, BATCH, 1ull << 5);
    settle();
    assert_false(is_copied(0));
    atomic_fetch_and(&ring_slot(&at.pool, 0)->unread, ~(1ull << 5)); // the supervisor does
    settle();
    check_slot(0);
}

static void words_that_are_garbage_stop_nobody_else(void **state) {
    (void)state;
    _Atomic uint64_t *bad = add_consumer(0), *good = add_consumer(1);
    for (uint32_t slot = 0; slot < 2; slot++)
        dispatch(slot, slot, BATCH, 0);
    settle();
    for (uint32_t slot = 0; slot < 2; slot++) {
        release_slot(slot);
        dispatch(slot, slot, BATCH, 1ull << slot);
    }
    atomic_store(&bad[0], UINT64_MAX);
    atomic_store(&good[1], 1);
    settle();
    check_slot(1);
    atomic_store(&bad[0], 0);
    settle();
    assert_false(is_copied(0));
    atomic_store(&bad[0], UINT64_MAX - 1); // as good as released: it harms itself alone
    settle();
    check_slot(0);
}

// ---- Groups and sizes --------------------------------------------------------------------------------------

static void many_go_at_once(void **state) {
    (void)state;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        dispatch(slot, SLOTS - 1 - slot, BATCH, 0);
    settle();
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        check_slot(slot);
    assert_int_equal(at.copies.copied, SLOTS);
}

static void a_batch_without_samples_is_said_to_be_there(void **state) {
    (void)state;
    dispatch(2, 2, 0, 0);
    settle();
    check_slot(2);
    assert_int_equal(word_of(2), 1);
    assert_int_equal(at.copies.copied, 1);
    assert_int_equal(at.copies.copied_bytes, 0);
}

static void of_a_short_batch_only_what_is_there_is_copied(void **state) {
    (void)state;
    const struct ring_field *last = &at.source.header->fields[1];
    dispatch(0, 0, BATCH, 0);
    settle();
    release_slot(0);
    dispatch(0, 0, 1, 0);
    settle();
    check_slot(0);
    assert_int_equal(at.copies.copied_bytes, 2 * last->slot_offset + (BATCH + 1) * last->sample_bytes);
}

// ---- The next process --------------------------------------------------------------------------------------

// One dies with a copy that waits, one that it has queued, one that it has not seen; the next one does them all.
static void the_next_owner_does_what_is_left(void **state) {
    (void)state;
    add_consumer(0);
    dispatch(0, 0, BATCH, 0);
    settle();
    release_slot(0);
    dispatch(0, 3, BATCH, 1ull << 0);
    dispatch(1, 1, BATCH, 0);
    assert_done(step());
    assert_done(gpu_synchronize(at.gpu, &said)); // its context goes with it
    dispatch(2, 2, BATCH, 0);
    assert_int_equal(at.copies.waiting_count, 1);
    assert_int_equal(at.copies.under_way_count, 1);
    copies_close(&at.copies);
    assert_int_equal(ring_recover(&at.pool, 1), 2);
    open_copies(2);
    _Atomic uint64_t *words = add_consumer(0);
    settle();
    check_slot(1);
    check_slot(2);
    assert_false(is_copied(0));
    assert_int_equal(word_of(0), 1);
    atomic_store(&words[0], 1);
    settle();
    check_slot(0);
    assert_int_equal(ring_slot(&at.pool, 1)->fill, 1);
}

static void a_gpu_that_is_lost_is_an_error(void **state) {
    (void)state;
    open_with("fail_copy=2");
    dispatch(0, 0, BATCH, 0);
    settle();
    check_slot(0);
    dispatch(1, 1, BATCH, 0);
    assert_int_equal(step(), -EIO);
    assert_non_null(strstr(said.text, "lost"));
    assert_false(is_copied(1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_batch_is_copied_and_both_words_say_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_not_been_released_is_not_overwritten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(releases_come_out_of_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_waited_for_goes_by_each_copys_own_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_whose_words_are_not_here_yet_has_released_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_who_is_gone_is_not_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(words_that_are_garbage_stop_nobody_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_go_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_batch_without_samples_is_said_to_be_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_a_short_batch_only_what_is_there_is_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_next_owner_does_what_is_left, set_up, tear_down),
        cmocka_unit_test_teardown(a_gpu_that_is_lost_is_an_error, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
