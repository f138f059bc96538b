// Loaders that were killed and do not end, because the kernel waits for a read: their batches come from other slots,
// and their own slots are not used before they have ended.
#include "order/partition.h"
#include "shm/ring_loader.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/delivery_fixture.h"

#define HUNG 7u // a loader's number

static const struct partition alone = {.samples = 40, .batch_size = BATCH, .world_size = 1};

static struct fixture fixture;

static int close_after(void **state) {
    (void)state;
    close_fixture(&fixture);
    return 0;
}

// The loader hangs at the first batch, in slot 0; with `others`, another one has read everything else. Of the slots,
// the first `there` have been allocated.
static struct consumer *open_hung_partly(uint32_t slots, uint32_t there, uint32_t prefetch, bool others) {
    open_partly(&fixture, slots, there, 1, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, prefetch);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_true(claim_one(&fixture, HUNG));
    assert_int_equal(fixture.claims[0].slot, 0);
    while (others && claim_one(&fixture, 1))
        finish_claim(&fixture, fixture.claim_count - 1);
    return consumer;
}

static struct consumer *open_hung(uint32_t slots, uint32_t prefetch, bool others) {
    return open_hung_partly(slots, slots, prefetch, others);
}

// Loaders other than the hung one do all there is to do.
static void work(void) {
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    while (claim_one(&fixture, 1)) {
        assert_int_not_equal(fixture.claims[fixture.claim_count - 1].slot, 0);
        finish_claim(&fixture, fixture.claim_count - 1);
    }
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    check_everything(&fixture);
}

static uint64_t drain(struct consumer *consumer, uint32_t rounds) {
    uint64_t taken = 0;
    while (rounds--) {
        work();
        taken += take(&fixture, consumer, 64);
        while (consumer->held_count)
            give_back(&fixture, consumer, 0);
    }
    return taken;
}

static void test_the_batch_comes_from_another_slot(void **state) {
    (void)state;
    struct consumer *consumer = open_hung(6, 4, false);
    assert_int_equal(leave_behind(&fixture, HUNG), 1);
    assert_int_equal(leave_behind(&fixture, HUNG), 0);
    assert_int_equal(drain(consumer, 10), 40); // in order and whole: take checks that
    assert_int_equal(fixture.delivery.slots[0].phase, SLOT_FILLING);
    assert_null(fixture.delivery.slots[0].lane);
    end_behind(&fixture, HUNG);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(fixture.delivery.abandoned, 0);
    check_everything(&fixture);
    settle(&fixture);
    assert_int_not_equal(fixture.delivery.slots[0].phase, SLOT_FREE);
}

static void test_it_is_read_before_anything_else(void **state) {
    (void)state;
    open_hung(6, 4, false);
    leave_behind(&fixture, HUNG);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_true(claim_one(&fixture, 1));
    const struct ring_claim *claim = &fixture.claims[fixture.claim_count - 1];
    assert_int_equal(ring_slot(&fixture.ring, claim->slot)->sequence, 0);
}

// What nobody had claimed in the slot that was left is not read there.
static void test_nothing_more_is_read_into_the_old_slot(void **state) {
    (void)state;
    open_hung(6, 4, false);
    leave_behind(&fixture, HUNG);
    work(); // checks it
}

static void test_a_full_ring_gives_up_its_last_batch(void **state) {
    (void)state;
    struct consumer *consumer = open_hung(4, 2, true);
    assert_int_equal(fixture.delivery.free_count, 0);
    leave_behind(&fixture, HUNG);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    check_everything(&fixture);
    assert_int_equal(fixture.delivery.moving, 0);
    assert_int_equal(consumer->lane->length, 3); // batches 0 to 2: the fourth slot is the hung loader's
    assert_int_equal(drain(consumer, 10), 20);
}

// While a loader that is not hung still writes to the last batch's slot, the move waits for it.
static void test_a_last_batch_that_is_being_read(void **state) {
    (void)state;
    struct consumer *consumer = open_hung(2, 1, false);
    while (claim_one(&fixture, 1))
        continue;
    leave_behind(&fixture, HUNG);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    check_everything(&fixture);
    assert_int_equal(fixture.delivery.moving, 1);
    while (fixture.claim_count > 1)
        finish_claim(&fixture, 1);
    assert_int_equal(drain(consumer, 10), 10);
}

static void test_a_ring_without_another_slot(void **state) {
    (void)state;
    struct consumer *consumer = open_hung(1, 1, true);
    const struct hung_batch stuck = {.moves = true, .now = 12, .ago_ns = 10};
    const struct hung_batch later = {.moves = true, .now = 12, .ago_ns = 11};
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 0);
    leave_behind(&fixture, HUNG); // noticed at 2, hung since 1
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    check_everything(&fixture);
    assert_int_equal(take(&fixture, consumer, 64), 0);
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 1);
    assert_int_equal(abandoned_find(&fixture.delivery, &later), 0);
    end_behind(&fixture, HUNG); // the slot serves after all
    settle(&fixture);
    check_everything(&fixture);
    assert_int_equal(take(&fixture, consumer, 64), 1);
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 0);
}

// However long ago the loader was killed: nobody has looked for another slot before.
static void test_the_search_for_a_slot_begins_late(void **state) {
    (void)state;
    open_hung(1, 1, true);
    struct hung_batch stuck = {.moves = true, .now = 50, .ago_ns = 10};
    abandoned_note(&fixture.delivery, HUNG, 2, 1);
    assert_int_equal(abandoned_leave(&fixture.delivery, HUNG, 50, 1), 1);
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 0);
    stuck.now = 60;
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 1);
}

// It waits for the next batch before it releases what it has, and what the hung loader keeps is lacking for that.
static void test_too_few_slots_are_left(void **state) {
    (void)state;
    struct consumer *consumer = open_hung(2, 2, false);
    leave_behind(&fixture, HUNG); // hung since 1
    work();
    assert_int_equal(take(&fixture, consumer, 64), 1);
    assert_int_equal(abandoned_starves(&fixture.delivery), 0); // it may be about to release it
    consumer->waiting_since_ns = 3;
    assert_int_equal(abandoned_starves(&fixture.delivery), 1);
    give_back(&fixture, consumer, 0);
    assert_int_equal(abandoned_starves(&fixture.delivery), 0);
    work();
    assert_int_equal(take(&fixture, consumer, 64), 1);
    assert_int_equal(abandoned_starves(&fixture.delivery), 1);
    end_behind(&fixture, HUNG);
    settle(&fixture);
    assert_int_equal(abandoned_starves(&fixture.delivery), 0);
}

// What is lacking is memory, for as long as it takes.
static void test_slots_are_still_coming(void **state) {
    (void)state;
    struct consumer *consumer = open_hung_partly(3, 2, 2, false);
    leave_behind(&fixture, HUNG);
    work();
    assert_int_equal(take(&fixture, consumer, 64), 1);
    consumer->waiting_since_ns = 3;
    assert_int_equal(abandoned_starves(&fixture.delivery), 0);
    delivery_add_slots(&fixture.delivery, 1);
    work();
    assert_int_equal(take(&fixture, consumer, 64), 1);
    work();
    assert_int_equal(abandoned_starves(&fixture.delivery), 1); // there is no other one to wait for
    end_behind(&fixture, HUNG);
    settle(&fixture);
    assert_int_equal(abandoned_starves(&fixture.delivery), 0);
}

static void test_a_batch_moves_to_a_slot_that_comes(void **state) {
    (void)state;
    struct consumer *consumer = open_hung_partly(2, 1, 1, true);
    const struct hung_batch stuck = {.moves = true, .now = 120, .ago_ns = 10};
    consumer->waiting_since_ns = 1;
    leave_behind(&fixture, HUNG); // noticed at 2
    work();
    abandoned_excuse(&fixture.delivery, 111);
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 0);
    delivery_add_slots(&fixture.delivery, 1);
    work();
    assert_int_equal(fixture.delivery.moving, 0);
    assert_int_equal(take(&fixture, consumer, 64), 1);
}

// Where none will come, the time counts.
static void test_a_batch_that_no_slot_comes_for(void **state) {
    (void)state;
    struct consumer *consumer = open_hung(1, 1, true);
    const struct hung_batch stuck = {.moves = true, .now = 120, .ago_ns = 10};
    consumer->waiting_since_ns = 1;
    leave_behind(&fixture, HUNG);
    work();
    abandoned_excuse(&fixture.delivery, 111);
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 1);
}

// The one that waited for the batch has gone before anybody noticed that its loader hangs.
static void test_the_only_slot_is_kept_for_nobody(void **state) {
    (void)state;
    leave(&fixture, open_hung(1, 1, true));
    delivery_restart(&fixture.delivery, &alone);
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 1);
    consumer->waiting_since_ns = 1;
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    leave_behind(&fixture, HUNG);
    assert_int_equal(abandoned_starves(&fixture.delivery), 1);
    end_behind(&fixture, HUNG);
    settle(&fixture);
    assert_int_equal(abandoned_starves(&fixture.delivery), 0);
    assert_int_equal(take(&fixture, consumer, 1), 1);
}

static void test_a_late_report_is_harmless(void **state) {
    (void)state;
    struct consumer *consumer = open_hung(4, 2, false);
    leave_behind(&fixture, HUNG);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    memset(ring_slot_data(&fixture.ring, 0), 0xee, fixture.ring.header->slot_bytes); // a late read
    finish_claim(&fixture, 0);
    check_everything(&fixture);
    end_behind(&fixture, HUNG);
    settle(&fixture);
    check_everything(&fixture);
    assert_int_equal(take(&fixture, consumer, 64), 2);
}

static void test_two_that_share_get_it_once_each(void **state) {
    (void)state;
    struct consumer *first = open_hung(6, 2, true), *second = join(&fixture, 0, 0, &anywhere, 2);
    leave_behind(&fixture, HUNG);
    work();
    assert_int_equal(take(&fixture, first, 1), 1);
    uint32_t slot = held_slot(&fixture, first, 0);
    give_back(&fixture, first, 0);
    assert_int_equal(fixture.delivery.slots[slot].phase, SLOT_READY);
    assert_int_equal(take(&fixture, second, 1), 1);
    give_back(&fixture, second, 0);
    assert_int_equal(fixture.delivery.slots[slot].phase, SLOT_FREE);
    check_everything(&fixture);
}

static void test_the_consumer_leaves_meanwhile(void **state) {
    (void)state;
    struct consumer *consumer = open_hung(1, 1, true);
    leave_behind(&fixture, HUNG);
    leave(&fixture, consumer);
    check_everything(&fixture);
    delivery_restart(&fixture.delivery, &alone);
    assert_int_equal(fixture.delivery.moving, 0);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    check_everything(&fixture);
    end_behind(&fixture, HUNG);
    consumer = join(&fixture, 0, 0, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&fixture, consumer, 1), 1);
}

// Another loader hangs at the same batch: when, is told by when the first one was noticed.
static void test_who_hangs_at_what(void **state) {
    (void)state;
    open_hung(6, 4, false);
    struct hung_batch query = {.owner = HUNG, .now = 102, .ago_ns = 100};
    abandoned_note(&fixture.delivery, HUNG, 2, 1);
    abandoned_note(&fixture.delivery, HUNG, 50, 40);
    assert_int_equal(abandoned_find(&fixture.delivery, &query), 1);
    assert_int_equal(abandoned_leave(&fixture.delivery, HUNG, 60, 1), 1);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(abandoned_find(&fixture.delivery, &query),
                     0); // it is not the reader of that batch any more
    query.owner = 8;
    assert_int_equal(abandoned_find(&fixture.delivery, &query), 0);
    assert_true(claim_one(&fixture, 8));
    assert_int_equal(abandoned_find(&fixture.delivery, &query), 1);
    query.ago_ns = 101;
    assert_int_equal(abandoned_find(&fixture.delivery, &query), 0);
}

// Whether it has hung for long counts from when somebody waits for it, or for a batch before it.
static void test_a_batch_that_nobody_waits_for(void **state) {
    (void)state;
    struct consumer *consumer = open_hung(1, 1, true);
    const struct hung_batch stuck = {.moves = true, .now = 112, .ago_ns = 10};
    leave_behind(&fixture, HUNG); // noticed at 2
    abandoned_excuse(&fixture.delivery, 110);
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 0);
    consumer->waiting_since_ns = 111;
    abandoned_excuse(&fixture.delivery, 119);
    const struct hung_batch awaited = {.moves = true, .now = 120, .ago_ns = 10};
    assert_int_equal(abandoned_find(&fixture.delivery, &awaited), 1);
    consumer->end = 0; // it waits, but not for that one
    abandoned_excuse(&fixture.delivery, 120);
    assert_int_equal(abandoned_find(&fixture.delivery, &awaited), 0);
}

static void test_a_batch_that_nobody_in_a_pool_waits_for(void **state) {
    (void)state;
    static struct fixture pool; // closed after the test
    open_fixture(&fixture, 1, 1, &alone);
    open_pool(&pool, &fixture, 3);
    struct consumer *consumer = join(&pool, 0, 0, &anywhere, 2);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_true(claim_one(&fixture, HUNG));
    const struct hung_batch stuck = {.moves = true, .now = 120, .ago_ns = 10};
    leave_behind(&fixture, HUNG);
    abandoned_excuse(&fixture.delivery, 110);
    consumer->waiting_since_ns = 111;
    abandoned_excuse(&fixture.delivery, 119);
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 1);
    consumer->waiting_since_ns = 0;
    abandoned_excuse(&fixture.delivery, 120);
    assert_int_equal(abandoned_find(&fixture.delivery, &stuck), 0);
}

// A failure that the hung loader was about to report does not keep others from reporting theirs.
static void test_a_failure_half_written(void **state) {
    (void)state;
    open_hung(6, 4, false);
    atomic_store(&fixture.ring.control->failure.state, HUNG);
    leave_behind(&fixture, HUNG);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_true(claim_one(&fixture, 1));
    struct ring_claim claim = drop_claim(&fixture, fixture.claim_count - 1);
    (void)!ring_chunk_failed(&fixture.ring, &claim, -EIO, 1, 2, 3);
    assert_int_equal(delivery_pump(&fixture.delivery), -EIO);
    struct ring_error failure;
    assert_true(ring_take_failure(&fixture.ring, &failure));
    assert_int_equal(failure.sample, 3);
}

static void test_a_pool_gets_it_from_the_other_slot(void **state) {
    (void)state;
    static struct fixture pool; // closed after the test
    open_fixture(&fixture, 4, 1, &alone);
    open_pool(&pool, &fixture, 3);
    struct consumer *consumer = join(&pool, 0, 0, &anywhere, 2);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_true(claim_one(&fixture, HUNG));
    leave_behind(&fixture, HUNG);
    struct ring_claim hung = drop_claim(&fixture, 0); // it does not report it in this test
    settle(&fixture);
    check_everything(&fixture);
    assert_int_equal(take(&pool, consumer, 64), 2);
    assert_true(ring_slot_claimed_by(&fixture.ring, hung.slot, HUNG));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_batch_comes_from_another_slot, close_after),
        cmocka_unit_test_teardown(test_it_is_read_before_anything_else, close_after),
        cmocka_unit_test_teardown(test_nothing_more_is_read_into_the_old_slot, close_after),
        cmocka_unit_test_teardown(test_a_full_ring_gives_up_its_last_batch, close_after),
        cmocka_unit_test_teardown(test_a_last_batch_that_is_being_read, close_after),
        cmocka_unit_test_teardown(test_a_ring_without_another_slot, close_after),
        cmocka_unit_test_teardown(test_the_search_for_a_slot_begins_late, close_after),
        cmocka_unit_test_teardown(test_too_few_slots_are_left, close_after),
        cmocka_unit_test_teardown(test_slots_are_still_coming, close_after),
        cmocka_unit_test_teardown(test_a_batch_moves_to_a_slot_that_comes, close_after),
        cmocka_unit_test_teardown(test_a_batch_that_no_slot_comes_for, close_after),
        cmocka_unit_test_teardown(test_the_only_slot_is_kept_for_nobody, close_after),
        cmocka_unit_test_teardown(test_a_late_report_is_harmless, close_after),
        cmocka_unit_test_teardown(test_two_that_share_get_it_once_each, close_after),
        cmocka_unit_test_teardown(test_the_consumer_leaves_meanwhile, close_after),
        cmocka_unit_test_teardown(test_who_hangs_at_what, close_after),
        cmocka_unit_test_teardown(test_a_batch_that_nobody_waits_for, close_after),
        cmocka_unit_test_teardown(test_a_batch_that_nobody_in_a_pool_waits_for, close_after),
        cmocka_unit_test_teardown(test_a_failure_half_written, close_after),
        cmocka_unit_test_teardown(test_a_pool_gets_it_from_the_other_slot, close_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
