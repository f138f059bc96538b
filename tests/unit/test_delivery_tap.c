// Device pools fed by a feed's ring, case by case: how batches move, and who waits for whom. Who begins where is in
// test_delivery_places.c; test_delivery_pools.c covers the cases that nobody thought of.
#include "order/partition.h"
#include "tests/unit/tap_fixture.h"

// At the end of an epoch the last ranks have a short batch, or one without samples.
static const struct partition three = {.samples = 25, .batch_size = BATCH, .world_size = 3};

// ---- Batches -----------------------------------------------------------------------------------------------

static void a_run_goes_through_a_pool(void **state) {
    (void)state;
    open_with(6, 5, 1, &alone);
    struct consumer *consumer = join(&gpu, 0, 3, &anywhere, 0);
    assert_int_equal(drain(&gpu, consumer), 30);
    assert_true(consumer_at_end(consumer));
    assert_int_equal(dispatched(&fixture), 30);
    assert_int_equal(dispatched(&gpu), 30);
    assert_int_equal(fixture.delivery.free_count, 6);
    assert_int_equal(gpu.delivery.free_count, 5);
    assert_int_equal(dispatched(&other), 0);
}

static void all_share_one_reading(void **state) {
    (void)state;
    open_with(6, 5, 1, &alone);
    struct consumer *readers[] = {join(&fixture, 0, 3, &anywhere, 1), join(&gpu, 0, 3, &anywhere, 1),
                                  join(&gpu, 0, 3, &anywhere, 1), join(&other, 0, 3, &anywhere, 1)};
    struct fixture *const places[] = {&fixture, &gpu, &gpu, &other};
    uint64_t taken[4] = {0};
    for (int round = 0; round < 60; round++) {
        settle(&fixture);
        for (int i = 0; i < 4; i++) {
            taken[i] += take(places[i], readers[i], 1);
            give_back_all(places[i], readers[i]);
            check_everything(&fixture);
        }
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(taken[i], 30);
    assert_int_equal(dispatched(&fixture), 30);
    assert_int_equal(dispatched(&gpu), 30);
    assert_int_equal(dispatched(&other), 30);
}

static void batches_without_samples_come_through(void **state) {
    (void)state;
    open_with(9, 9, 3, &three);
    struct fixture *const places[] = {&gpu, &other, &fixture};
    struct consumer *readers[3];
    for (uint32_t rank = 0; rank < 3; rank++)
        readers[rank] = join(places[rank], rank, 4, &anywhere, 1);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(drain(places[rank], readers[rank]), 12);
}

// A batch in the pool no longer takes up a slot of the ring, even while it is held in the pool.
static void the_ring_has_its_slots_back_when_the_copies_are_done(void **state) {
    (void)state;
    open_with(6, 5, 1, &alone);
    struct consumer *consumer = join(&gpu, 0, 1, &anywhere, 4);
    settle(&fixture);
    assert_int_equal(take(&gpu, consumer, 64), 4);
    settle(&fixture);
    check_everything(&fixture);
    assert_int_equal(gpu.delivery.free_count, 0);
    assert_int_equal(fixture.delivery.ready_count, 5); // of the ten, five are in the pool
    assert_int_equal(fixture.delivery.free_count, 1);
}

static void a_copy_keeps_its_slot_of_the_ring(void **state) {
    (void)state;
    open_with(3, 2, 1, &alone);
    struct consumer *consumer = join(&gpu, 0, 1, &anywhere, 1);
    read_all();
    check_everything(&fixture);
    claim_all(&gpu);
    assert_int_equal(gpu.claim_count, 2);
    assert_int_equal(fixture.delivery.free_count, 0);
    pump(&fixture);
    assert_int_equal(dispatched(&fixture), 3);
    finish_claim(&gpu, 0);
    pump(&fixture);
    check_everything(&fixture);
    assert_int_equal(dispatched(&fixture), 4);
    // The last consumer leaves: what is being copied stays until it is done.
    leave(&gpu, consumer);
    check_everything(&fixture);
    finish_claim(&gpu, 0);
    pump(&fixture);
    check_everything(&fixture);
}

static void closing_a_pool_gives_the_ring_its_slots_back(void **state) {
    (void)state;
    open_with(4, 3, 1, &alone);
    struct consumer *host = join(&fixture, 0, 1, &anywhere, 1), *consumer = join(&gpu, 0, 1, &anywhere, 1);
    settle(&fixture);
    give_back_all(&gpu, consumer);
    pump(&fixture);
    claim_all(&gpu);
    leave(&gpu, consumer);
    gpu.claim_count = 0;
    delivery_close(&gpu.delivery);
    check_everything(&fixture);
    assert_int_equal(drain(&fixture, host), 10);
    assert_int_equal(fixture.delivery.free_count, 4);
}

// As after the death of as many transfer processes as the queue has entries, each at one certain instruction.
static void a_pool_with_a_full_queue_takes_nothing_from_the_ring(void **state) {
    (void)state;
    open_with(4, 3, 1, &alone);
    struct consumer *consumer = join(&gpu, 0, 1, &anywhere, 1);
    fill_all(&fixture);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    fill_all(&fixture);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    gpu.ring.queued += gpu.ring.header->queue_entries;
    atomic_store(&ring_chunks(&gpu.ring, 0)[0], chunk_word(CHUNK_FREE, 0, 0)); // that of the first entry
    assert_int_equal(delivery_pump(&gpu.delivery), 0);
    assert_int_equal(gpu.delivery.free_count, 3);
    check_everything(&other);
    atomic_store(&ring_chunks(&gpu.ring, 0)[0], chunk_word(CHUNK_IDLE, 0, 0));
    gpu.ring.queued -= gpu.ring.header->queue_entries;
    check_everything(&fixture);
    assert_int_equal(drain(&gpu, consumer), 10);
}

// Also while somebody is attached to it.
static void closing_a_pool_takes_its_place_out_of_the_ring(void **state) {
    (void)state;
    open_with(4, 3, 1, &alone);
    join(&gpu, 0, 1, &anywhere, 1);
    struct consumer *host = join(&fixture, 0, 1, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(fixture.delivery.consumer_count, 2);
    delivery_close(&gpu.delivery);
    assert_int_equal(fixture.delivery.consumer_count, 1);
    check_everything(&fixture);
    assert_int_equal(drain(&fixture, host), 10);
}

// ---- Who has to have released ------------------------------------------------------------------------------

static void the_next_filling_waits_for_those_who_were_granted_this_one(void **state) {
    (void)state;
    open_with(6, 1, 1, &alone);
    struct consumer *first = join(&gpu, 0, 0, &anywhere, 1), *second = join(&gpu, 0, 0, &anywhere, 1);
    const struct ring_slot *slot = ring_slot(&gpu.ring, 0);
    uint64_t one = 1ull << first->bit, two = 1ull << second->bit;
    settle(&fixture);
    assert_int_equal(atomic_load(&slot->unread), 0);
    assert_int_equal(take(&gpu, first, 1) + take(&gpu, second, 1), 2);
    give_back_all(&gpu, first);
    give_back_all(&gpu, second);
    pump(&fixture);
    assert_int_equal(slot->fill, 2);
    assert_int_equal(atomic_load(&slot->unread), one | two);
    // A consumer that has left is no longer waited for, now or later.
    leave(&gpu, second);
    assert_int_equal(atomic_load(&slot->unread), one);
    settle(&fixture);
    assert_int_equal(take(&gpu, first, 1), 1);
    give_back_all(&gpu, first);
    pump(&fixture);
    assert_int_equal(slot->fill, 3);
    assert_int_equal(atomic_load(&slot->unread), one);
}

// A batch that nobody was granted was never seen: but one before it in the same slot may still be read.
static void a_stream_is_waited_for_beyond_a_batch_that_was_given_up(void **state) {
    (void)state;
    open_with(6, 1, 1, &alone);
    struct consumer *consumer = join(&gpu, 0, 0, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&gpu, consumer, 1), 1);
    give_back_all(&gpu, consumer);
    pump(&fixture); // fill 2, which is not copied: the stream has not got there
    assert_int_equal(atomic_load(&ring_slot(&gpu.ring, 0)->unread), 1ull << consumer->bit);
    check_everything(&fixture);
    assert_true(claim_one(&gpu, 1));
    assert_false(may_copy(&gpu, &gpu.claims[0]));
    run_streams(&gpu);
    assert_true(may_copy(&gpu, &gpu.claims[0]));
}

// ---- Who holds up whom -------------------------------------------------------------------------------------

static void wait_for_more(struct consumer *consumer) {
    consumer->waiting_since_ns = 1;
}

static void one_in_a_pool_holds_up_those_there(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *bad = join(&gpu, 0, 0, &anywhere, 1), *good = join(&gpu, 0, 0, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&gpu, bad, 1), 1);
    for (int i = 0; i < 4; i++) {
        assert_false(delivery_holds_up(&gpu.delivery, bad));
        settle(&fixture);
        assert_int_equal(take(&gpu, good, 1), 1);
        give_back_all(&gpu, good);
    }
    settle(&fixture);
    assert_int_equal(take(&gpu, good, 1), 0);
    assert_false(delivery_holds_up(&gpu.delivery, bad)); // nobody has said that it waits
    wait_for_more(good);
    assert_true(delivery_holds_up(&gpu.delivery, bad));
}

static void one_in_a_pool_holds_up_those_in_the_ring(void **state) {
    (void)state;
    open_with(4, 2, 1, &alone);
    struct consumer *bad = join(&gpu, 0, 0, &anywhere, 1), *host = join(&fixture, 0, 0, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&gpu, bad, 1), 1);
    for (uint32_t got = 1; got;) {
        settle(&fixture);
        got = take(&fixture, host, 1);
        give_back_all(&fixture, host);
    }
    assert_false(delivery_holds_up(&gpu.delivery, bad));
    wait_for_more(host);
    assert_true(delivery_holds_up(&gpu.delivery, bad));
    assert_false(delivery_holds_up(&fixture.delivery, host) && host->held_count);
    give_back_all(&gpu, bad);
    settle(&fixture);
    assert_int_equal(take(&gpu, bad, 1), 1);
}

static void one_in_the_ring_holds_up_those_in_a_pool(void **state) {
    (void)state;
    open_with(4, 3, 1, &alone);
    struct consumer *bad = join(&fixture, 0, 0, &anywhere, 1), *good = join(&gpu, 0, 0, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&fixture, bad, 1), 1);
    for (uint32_t got = 1; got;) {
        settle(&fixture);
        got = take(&gpu, good, 1);
        give_back_all(&gpu, good);
    }
    assert_int_equal(good->cursor, 4);
    assert_false(delivery_holds_up(&fixture.delivery, bad));
    wait_for_more(good);
    assert_true(delivery_holds_up(&fixture.delivery, bad));
}

// In a third place: through the ring, between two pools.
static void one_in_a_pool_holds_up_those_in_another(void **state) {
    (void)state;
    open_with(4, 2, 1, &alone);
    struct consumer *bad = join(&gpu, 0, 0, &anywhere, 1), *good = join(&other, 0, 0, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&gpu, bad, 1), 1);
    for (uint32_t got = 1; got;) {
        settle(&fixture);
        got = take(&other, good, 1);
        give_back_all(&other, good);
    }
    wait_for_more(good);
    assert_true(delivery_holds_up(&gpu.delivery, bad));
    assert_int_equal(delivery_oldest_held(&gpu.delivery, bad), 0);
    leave(&gpu, bad);
    settle(&fixture);
    assert_int_equal(take(&other, good, 1), 1);
}

// One that has everything which the ring has: others wait for somebody else.
static void one_in_a_pool_that_has_everything_holds_up_nobody_in_the_ring(void **state) {
    (void)state;
    open_with(2, 2, 1, &alone);
    struct consumer *host = join(&fixture, 0, 0, &anywhere, 1), *waits = join(&fixture, 0, 0, &anywhere, 1);
    struct consumer *keeps = join(&gpu, 0, 0, &anywhere, 1);
    host->prefetch = keeps->prefetch = 2;
    settle(&fixture);
    assert_int_equal(take(&fixture, host, 64), 2);
    assert_int_equal(take(&gpu, keeps, 64), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(take(&fixture, waits, 1), 1);
        give_back_all(&fixture, waits);
    }
    wait_for_more(waits);
    settle(&fixture);
    assert_true(delivery_holds_up(&fixture.delivery, host));
    assert_false(delivery_holds_up(&gpu.delivery, keeps));
}

// Whom the transfer process waits for: the streams of those that others on the GPU wait for.
static void a_stream_stalls_those_that_wait_for_more(void **state) {
    (void)state;
    open_with(8, 4, 1, &alone);
    struct consumer *keeps = join(&gpu, 0, 0, &anywhere, 1), *waits = join(&gpu, 0, 1, &anywhere, 1);
    settle(&fixture);
    assert_int_equal(take(&gpu, keeps, 1), 1);
    assert_int_equal(take(&gpu, waits, 1), 1);
    wait_for_more(waits);
    assert_false(tap_stalls(&gpu.delivery, keeps)); // the next batch is there
    waits->cursor = gpu.delivery.ring->header->slot_count;
    assert_true(tap_stalls(&gpu.delivery, keeps));
    assert_false(tap_stalls(&gpu.delivery, waits)); // it stalls itself
    waits->waiting_since_ns = 0;
    assert_false(tap_stalls(&gpu.delivery, keeps));
    wait_for_more(waits);
    waits->cursor = waits->end; // it is due nothing more
    assert_false(tap_stalls(&gpu.delivery, keeps));
    waits->cursor = 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_run_goes_through_a_pool),
        TEST(all_share_one_reading),
        TEST(batches_without_samples_come_through),
        TEST(the_ring_has_its_slots_back_when_the_copies_are_done),
        TEST(a_copy_keeps_its_slot_of_the_ring),
        TEST(closing_a_pool_gives_the_ring_its_slots_back),
        TEST(closing_a_pool_takes_its_place_out_of_the_ring),
        TEST(a_pool_with_a_full_queue_takes_nothing_from_the_ring),
        TEST(the_next_filling_waits_for_those_who_were_granted_this_one),
        TEST(a_stream_is_waited_for_beyond_a_batch_that_was_given_up),
        TEST(one_in_a_pool_holds_up_those_there),
        TEST(one_in_a_pool_holds_up_those_in_the_ring),
        TEST(one_in_the_ring_holds_up_those_in_a_pool),
        TEST(one_in_a_pool_holds_up_those_in_another),
        TEST(one_in_a_pool_that_has_everything_holds_up_nobody_in_the_ring),
        TEST(a_stream_stalls_those_that_wait_for_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
