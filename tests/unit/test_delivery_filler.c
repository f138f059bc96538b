// What another kind of filler can rely on: delivery with one that stands for other hardware, such as a GPU that
// gathers samples. The fillers that exist are in test_delivery*.c.
#include "base/error.h"
#include "daemon/supervisor/delivery/window.h"
#include "order/partition.h"
#include "tests/unit/delivery_fixture.h"

#define SLOTS 4u

static const struct partition alone = {.samples = 40, .batch_size = BATCH, .world_size = 4};

// It has the samples of batches below `available`, fills a batch at once unless it is `slow`, and records every call.
struct gatherer {
    struct filler filler;
    uint64_t available, first;
    bool slow;
    uint32_t filling[SLOTS]; // dispatches without done()
    uint32_t dispatched, woken, opened, closed, left;
    uint64_t granted;
};

static struct fixture fixture;
static struct gatherer gatherer;

static struct gatherer *gatherer_of(const struct delivery *delivery) {
    return CONTAINER_OF(delivery->filler, struct gatherer, filler);
}

static int close_after(void **state) {
    (void)state;
    close_fixture(&fixture);
    return 0;
}

static void fill_claimed(struct ring *ring) {
    struct ring_claim claim;
    while (ring_claim(ring, 1, &claim)) {
        fixture_fill(ring, &claim);
        (void)!ring_chunk_done(ring, &claim, 0);
    }
}

static bool dispatch(struct delivery *delivery, struct lane *lane, uint32_t slot) {
    struct gatherer *self = gatherer_of(delivery);
    struct batch_place place;
    assert_int_equal(delivery->slots[slot].phase, SLOT_FREE);
    assert_int_equal(partition_locate(&delivery->partition, lane->rank, window_end(lane), &place), 0);
    if (!ring_dispatch(delivery->ring, slot, &(struct ring_batch){1, lane->rank, window_end(lane)}, &place))
        return false;
    assert_int_equal(self->filling[slot]++, 0);
    self->dispatched++;
    if (!self->slow)
        fill_claimed(delivery->ring);
    return true;
}

static bool ready(const struct delivery *delivery, const struct lane *lane) {
    return window_end(lane) < gatherer_of(delivery)->available;
}

static void wake(struct delivery *delivery, uint32_t chunks) {
    gatherer_of(delivery)->woken += chunks;
}

static void done(struct delivery *delivery, uint32_t slot) {
    assert_int_equal(gatherer_of(delivery)->filling[slot]--, 1);
}

static void granted(struct delivery *delivery, const struct consumer *consumer, uint32_t slot) {
    assert_int_equal(delivery->slots[slot].sequence + 1, consumer->cursor);
    gatherer_of(delivery)->granted++;
}

static void left(struct delivery *delivery, const struct consumer *consumer) {
    assert_non_null(consumer->lane);
    gatherer_of(delivery)->left++;
}

static bool can_begin(const struct delivery *delivery, const struct lane *lane, uint64_t rank,
                      uint64_t sequence) {
    (void)lane, (void)rank;
    return sequence >= gatherer_of(delivery)->first;
}

static uint64_t first_start(const struct delivery *delivery, uint64_t rank) {
    (void)rank;
    return gatherer_of(delivery)->first;
}

static int open_self(struct delivery *delivery) {
    gatherer_of(delivery)->opened++;
    return delivery->lane_limit > SLOTS ? -ENOMEM : 0;
}

static void close_self(struct delivery *delivery) {
    gatherer_of(delivery)->closed++;
}

static const struct filler_operations all = {
    .rank_option = "ranks_here",
    .here = "in this test",
    .open = open_self,
    .close = close_self,
    .ready = ready,
    .dispatch = dispatch,
    .wake = wake,
    .done = done,
    .granted = granted,
    .left = left,
    .can_begin = can_begin,
    .first_start = first_start,
};

static int open_with(const struct filler_operations *operations, uint32_t lanes) {
    fixture = (struct fixture){0};
    gatherer = (struct gatherer){.filler = {operations}, .available = UINT64_MAX};
    fixture_ring(&fixture.ring, &(struct ring_shape){SLOTS, BATCH, 2, 1});
    return delivery_open(&fixture.delivery, &fixture.ring, &alone, lanes, &gatherer.filler, SLOTS);
}

static uint32_t take_all(struct consumer *consumer) {
    uint32_t taken = 0;
    for (uint32_t count = 1; count; taken += count) {
        for (int i = 0; i < 2; i++) // what the first one dispatches is seen by the second one
            assert_int_equal(delivery_pump(&fixture.delivery), 0);
        count = take(&fixture, consumer, 64);
        while (consumer->held_count)
            give_back(&fixture, consumer, 0);
        check_everything(&fixture);
    }
    return taken;
}

static uint32_t filling(void) {
    uint32_t sum = 0;
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        sum += gatherer.filling[slot];
    return sum;
}

// ---- Tests -------------------------------------------------------------------------------------------------

static bool dispatch_alone(struct delivery *delivery, struct lane *lane, uint32_t slot) {
    bool dispatched = dispatch(delivery, lane, slot);
    gatherer.filling[slot] = 0; // no done() will come
    return dispatched;
}

static void words_and_dispatch_are_enough(void **state) {
    (void)state;
    static const struct filler_operations least = {
        .rank_option = "ranks_here", .here = "in this test", .dispatch = dispatch_alone};
    assert_int_equal(open_with(&least, 1), 0);
    assert_int_equal(take_all(join(&fixture, 2, 2, &anywhere, 0)), 6);
    assert_int_equal(gatherer.dispatched, 6);
}

static void only_what_is_ready_is_dispatched(void **state) {
    (void)state;
    assert_int_equal(open_with(&all, 1), 0);
    gatherer.available = 3;
    struct consumer *consumer = join(&fixture, 0, 0, &anywhere, 0);
    assert_int_equal(take_all(consumer), 3);
    assert_int_equal(gatherer.dispatched, 3);
    assert_int_equal(gatherer.granted, 3);
    assert_true(gatherer.woken > 0);
    gatherer.available = 5;
    assert_int_equal(take_all(consumer), 2);
}

static void abandoned_batches_are_done_when_they_are_written(void **state) {
    (void)state;
    assert_int_equal(open_with(&all, 1), 0);
    gatherer.slow = true;
    struct start_position far = {.given = true, .epoch = 3};
    leave(&fixture, join(&fixture, 0, 0, &anywhere, 0));
    leave(&fixture, join(&fixture, 0, 0, &far, 0)); // nothing was dispatched for nobody
    assert_int_equal(gatherer.dispatched, 0);
    struct consumer *consumer = join(&fixture, 0, 0, &far, 0);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(filling(), SLOTS);
    leave(&fixture, consumer);
    consumer = join(&fixture, 0, 0, &anywhere, 0); // goes back: the four are abandoned
    check_everything(&fixture);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    assert_int_equal(filling(), SLOTS);
    fill_claimed(&fixture.ring);
    assert_int_equal(delivery_pump(&fixture.delivery), 0);
    check_everything(&fixture);
    assert_int_equal(gatherer.dispatched, 2 * SLOTS);
    assert_int_equal(filling(), SLOTS);
    assert_int_equal(gatherer.left, 3);
    delivery_close(&fixture.delivery);
    assert_int_equal(filling(), 0);
    assert_int_equal(gatherer.closed, 1);
    fixture.consumers[consumer->bit] = NULL;
    free(consumer);
}

static void it_has_a_say_in_where_consumers_begin(void **state) {
    (void)state;
    assert_int_equal(open_with(&all, 2), 0);
    gatherer.first = 4;
    struct start_position early = {.given = true, .epoch = 1}, later = {.given = true, .epoch = 2};
    int err = 0;
    assert_int_equal(join(&fixture, 0, 0, &anywhere, 0)->cursor, 4);
    assert_null(try_join(&fixture, 0, 0, &early, 0, &err));
    assert_int_equal(err, -ESTALE);
    assert_int_equal(join(&fixture, 0, 0, &later, 0)->cursor, 6);
    check_everything(&fixture);
}

static void messages_have_its_words(void **state) {
    (void)state;
    struct error error = {0};
    struct consumer consumer = {0};
    assert_int_equal(open_with(&all, 1), 0);
    join(&fixture, 0, 0, &anywhere, 0);
    assert_int_equal(delivery_join(&fixture.delivery, &consumer, 1, 0, &anywhere, 0, &error), -ENOSPC);
    assert_non_null(strstr(error.text, "in this test"));
    assert_non_null(strstr(error.text, "ranks_here"));
}

static void one_that_cannot_open_is_closed(void **state) {
    (void)state;
    assert_int_equal(open_with(&all, SLOTS + 1), -ENOMEM);
    assert_int_equal(gatherer.opened, 1);
    assert_int_equal(gatherer.closed, 1);
    delivery_close(&fixture.delivery); // does nothing
    assert_int_equal(gatherer.closed, 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, close_after)

// ---- Slots that differ -------------------------------------------------------------------------------------

static uint32_t large; // the slot that alone has room for batches with an odd number

static bool choose(struct delivery *delivery, const struct lane *lane, uint64_t sequence) {
    (void)lane;
    for (uint32_t i = 0; i < delivery->free_count; i++)
        if ((delivery->free_slots[i] == large) == sequence % 2) {
            uint32_t slot = delivery->free_slots[i];
            delivery->free_slots[i] = delivery->free_slots[delivery->free_count - 1];
            delivery->free_slots[delivery->free_count - 1] = slot;
            return true;
        }
    return false;
}

static bool dispatch_chosen(struct delivery *delivery, struct lane *lane, uint32_t slot) {
    assert_int_equal(slot == large, window_end(lane) % 2);
    return dispatch(delivery, lane, slot);
}

static void batches_wait_for_a_slot_that_they_fit_into(void **state) {
    (void)state;
    static struct filler_operations picky; // closed after the test
    picky = all;
    picky.choose = choose;
    picky.dispatch = dispatch_chosen;
    for (large = 0; large < SLOTS; large++) {
        assert_int_equal(open_with(&picky, 1), 0);
        struct consumer *consumer = join(&fixture, 0, 2, &anywhere, SLOTS);
        for (int i = 0; i < 3; i++)
            assert_int_equal(delivery_pump(&fixture.delivery), 0);
        assert_int_equal(gatherer.dispatched, 3); // 0, 1, 2; there is no room for 3
        assert_int_equal(take(&fixture, consumer, SLOTS), 3);
        give_back(&fixture, consumer, held_slot(&fixture, consumer, 0) == large);
        assert_int_equal(delivery_pump(&fixture.delivery), 0);
        assert_int_equal(gatherer.dispatched, 3); // that slot is too small
        while (consumer->held_count)
            give_back(&fixture, consumer, 0);
        take_all(consumer);
        assert_true(consumer_at_end(consumer));
        if (large + 1 < SLOTS)
            close_fixture(&fixture);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(words_and_dispatch_are_enough),
        TEST(only_what_is_ready_is_dispatched),
        TEST(abandoned_batches_are_done_when_they_are_written),
        TEST(it_has_a_say_in_where_consumers_begin),
        TEST(messages_have_its_words),
        TEST(one_that_cannot_open_is_closed),
        TEST(batches_wait_for_a_slot_that_they_fit_into),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
