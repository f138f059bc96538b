// The bookkeeping of delivery under tens of thousands of random steps with fixed seeds: consumers join,
// seek, leave, take and release in any order, loaders work, fail and die. After every step all slots and
// counts are checked.
#include "base/sizes.h"
#include "order/partition.h"
#include "shm/ring_loader.h"
#include "tests/unit/delivery_fixture.h"

#define STEPS 100000

struct model {
    struct fixture fixture;
    uint64_t random;
    uint32_t lanes, next_owner;
    uint32_t hung_owner; // does not end; 0: none
    uint64_t first_sequence;
    uint64_t granted; // all batches of all consumers
    uint32_t refused, restarted;
    uint32_t left; // behind, by loaders that hung: batches
};

static uint64_t roll(struct model *model, uint64_t sides) {
    return fixture_random(&model->random) % sides;
}

static struct partition random_partition(struct model *model) {
    struct partition partition = {.samples = 13 + roll(model, 60),
                                  .batch_size = BATCH,
                                  .world_size = 1 + roll(model, 3),
                                  .drop_last = roll(model, 2),
                                  .start_epoch = roll(model, 3)};
    partition.start_sample = roll(model, 2) ? 0 : roll(model, partition.samples);
    return partition;
}

static struct consumer *any_consumer(struct model *model) {
    return model->fixture.consumers[roll(model, CONSUMERS_MOST)];
}

// ---- Joining, as it should turn out -----------------------------------------------------------------------

struct lane_view {
    uint32_t consumers, lanes_in_use;
    bool granted;
    uint64_t slowest; // cursor of those that are not at their end
};

static struct lane_view view_lane(const struct model *model, uint32_t rank) {
    struct lane_view view = {.slowest = UINT64_MAX};
    uint64_t ranks = 0;
    for (int i = 0; i < CONSUMERS_MOST; i++) {
        const struct consumer *consumer = model->fixture.consumers[i];
        if (!consumer)
            continue;
        ranks |= 1ull << consumer->lane->rank;
        if (consumer->lane->rank != rank)
            continue;
        view.consumers++;
        view.granted |= consumer->batches > 0;
        if (!consumer_at_end(consumer))
            view.slowest = min_u64(view.slowest, consumer->cursor);
    }
    view.lanes_in_use = (uint32_t)__builtin_popcountll(ranks);
    return view;
}

static void check_start(struct model *model, const struct lane_view *view, const struct consumer *consumer,
                        const struct start_position *start, uint64_t wanted) {
    if (start->given)
        assert_int_equal(consumer->cursor, wanted);
    else if (!view->consumers)
        assert_int_equal(consumer->cursor, model->first_sequence);
    else if (view->slowest != UINT64_MAX)
        assert_int_equal(consumer->cursor, view->slowest);
    assert_true(consumer->prefetch >= 1);
}

static struct start_position random_start(struct model *model) {
    const struct partition *partition = &model->fixture.delivery.partition;
    struct start_position start = {.given = roll(model, 2), .epoch = partition->start_epoch + roll(model, 4)};
    start.goes_back = start.given && roll(model, 8) == 0;
    // Mostly where a batch begins.
    start.consumed =
        roll(model, 5) ? roll(model, 6) * BATCH * partition->world_size : roll(model, partition->samples);
    if (start.epoch == partition->start_epoch && roll(model, 5))
        start.consumed += partition->start_sample;
    return start;
}

static void step_join(struct model *model) {
    struct fixture *fixture = &model->fixture;
    const struct delivery *delivery = &fixture->delivery;
    uint32_t rank = (uint32_t)roll(model, delivery->partition.world_size),
             attached = delivery->consumer_count;
    if (attached == CONSUMERS_MOST - 1)
        return;
    struct start_position start = random_start(model);
    uint64_t epochs = roll(model, 3) ? delivery->partition.start_epoch + roll(model, 40) : 0, wanted = 0;
    struct lane_view view = view_lane(model, rank);
    uint64_t here = view.slowest;
    bool nowhere =
        start.given && partition_sequence(&delivery->partition, start.epoch, start.consumed, &wanted) < 0;
    bool full = !view.consumers && view.lanes_in_use == model->lanes;
    int err = 0;
    struct consumer *consumer = try_join(fixture, rank, epochs, &start, (uint32_t)roll(model, 8), &err);
    model->refused += err != 0;
    if (nowhere) {
        assert_int_equal(err, -ESTALE);
    } else if (full) {
        assert_int_equal(err, -ENOSPC);
    } else if (err) {
        assert_int_equal(err, -ESTALE); // the others have moved on
        assert_true(start.given && !start.goes_back && view.granted && wanted < here);
    } else {
        if (!attached)
            model->first_sequence = consumer->cursor;
        check_start(model, &view, consumer, &start, wanted);
    }
}

static void step_leave(struct model *model) {
    struct consumer *consumer = any_consumer(model);
    if (consumer)
        leave(&model->fixture, consumer);
}

// Everybody leaves; the next consumer finds the lanes as they were left, or another run.
static void step_all_leave(struct model *model) {
    struct partition partition = random_partition(model);
    for (int i = 0; i < CONSUMERS_MOST; i++)
        if (model->fixture.consumers[i])
            leave(&model->fixture, model->fixture.consumers[i]);
    check_everything(&model->fixture);
    if (roll(model, 2) || partition_batches(&partition, partition.start_epoch + 1) == 0)
        return;
    delivery_restart(&model->fixture.delivery, &partition);
    model->restarted++;
}

// ---- Loaders ----------------------------------------------------------------------------------------------

static void step_claim(struct model *model) {
    for (uint64_t left = roll(model, 6); left > 0; left--)
        claim_one(&model->fixture, model->next_owner + (uint32_t)roll(model, 3));
}

// A batch that nobody wants any more may fail; any other failure ends the feed.
static void step_finish(struct model *model) {
    struct fixture *fixture = &model->fixture;
    for (uint64_t left = roll(model, 6); left > 0 && fixture->claim_count; left--) {
        uint32_t at = (uint32_t)roll(model, fixture->claim_count);
        if (fixture->owners[at] == model->hung_owner && roll(model, 8))
            continue; // else it reports a chunk in the last moment
        if (fixture->delivery.slots[fixture->claims[at].slot].lane || roll(model, 2)) {
            finish_claim(fixture, at);
            continue;
        }
        struct ring_claim claim = drop_claim(fixture, at);
        (void)!ring_chunk_failed(&fixture->ring, &claim, -EIO, 0, 0, 0);
    }
}

static void step_die(struct model *model) {
    replace_loader(&model->fixture, model->next_owner++);
}

static void end_hung(struct model *model) {
    if (model->hung_owner)
        end_behind(&model->fixture, model->hung_owner);
    model->hung_owner = 0;
}

// One loader at a time is killed and does not end, until this step is taken again.
static void step_hang(struct model *model) {
    if (model->hung_owner) {
        end_hung(model);
        return;
    }
    model->hung_owner = model->next_owner++;
    model->left += leave_behind(&model->fixture, model->hung_owner);
}

// ---- Consumers --------------------------------------------------------------------------------------------

static void step_take(struct model *model) {
    struct consumer *consumer = any_consumer(model);
    if (consumer)
        model->granted += take(&model->fixture, consumer, 1 + (uint32_t)roll(model, 4));
}

static void step_release(struct model *model) {
    struct consumer *consumer = any_consumer(model);
    if (consumer && consumer->held_count)
        give_back(&model->fixture, consumer, (uint32_t)roll(model, consumer->held_count));
}

// Every consumer that holds all it may gives any one back; then every lane must move, or be at its end.
static void step_promise(struct model *model) {
    struct fixture *fixture = &model->fixture;
    end_hung(model);
    for (int i = 0; i < CONSUMERS_MOST; i++) {
        struct consumer *consumer = fixture->consumers[i];
        if (consumer && consumer->held_count == consumer->prefetch)
            give_back(fixture, consumer, (uint32_t)roll(model, consumer->held_count));
    }
    settle(fixture);
    uint64_t moved[3] = {0}, waits[3] = {0};
    for (int i = 0; i < CONSUMERS_MOST; i++) {
        struct consumer *consumer = fixture->consumers[i];
        if (!consumer)
            continue;
        waits[consumer->lane->rank] += !consumer_at_end(consumer);
        moved[consumer->lane->rank] += take(fixture, consumer, 1);
    }
    for (int rank = 0; rank < 3; rank++) {
        model->granted += moved[rank];
        if (waits[rank] && !moved[rank])
            fail_msg("rank %d is stuck", rank);
    }
}

static void step_pump(struct model *model) {
    assert_int_equal(delivery_pump(&model->fixture.delivery), 0);
}

static void run_model(uint64_t seed, uint32_t slots, uint32_t lanes) {
    static const struct {
        void (*step)(struct model *);
        uint32_t weight;
    } steps[] = {{step_join, 8},    {step_leave, 5},   {step_all_leave, 1}, {step_claim, 25},
                 {step_finish, 25}, {step_die, 3},     {step_take, 30},     {step_release, 30},
                 {step_pump, 25},   {step_promise, 2}, {step_hang, 3}};
    struct model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    *model = (struct model){.random = seed, .lanes = lanes, .next_owner = 1};
    open_fixture(&model->fixture, slots, lanes,
                 &(struct partition){.samples = 40, .batch_size = BATCH, .world_size = 3});
    for (int i = 0; i < STEPS; i++) {
        uint64_t at = roll(model, 157);
        size_t which = 0;
        while (at >= steps[which].weight)
            at -= steps[which++].weight;
        steps[which].step(model);
        check_everything(&model->fixture);
    }
    print_message("seed %lu: %lu batches granted, %u joins refused, %u restarts, %u batches left behind\n",
                  seed, model->granted, model->refused, model->restarted, model->left);
    assert_true(model->left > 30 && model->granted > STEPS / 60 && model->refused > 10 &&
                model->restarted > 2);
    close_fixture(&model->fixture);
    free(model);
}

static void test_one_lane(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        run_model(seed, 12, 1);
}

static void test_ranks_that_share_the_ring(void **state) {
    (void)state;
    for (uint64_t seed = 11; seed <= 16; seed++)
        run_model(seed, 13, 2);
    run_model(17, 24, 3);
}

static void test_hardly_a_slot(void **state) {
    (void)state;
    run_model(21, 3, 1);
    run_model(22, 6, 3);
    run_model(23, 2, 2);
    run_model(24, 1, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_lane),
        cmocka_unit_test(test_ranks_that_share_the_ring),
        cmocka_unit_test(test_hardly_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
