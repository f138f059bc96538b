// Delivery to host memory and to two device pools at once, under tens of thousands of random steps with fixed seeds:
// consumers join, seek, leave, take and release anywhere, streams reach their releases at any time, loaders and
// transfer processes work and die. After every step all slots and counts of all rings are checked, and a consumer that
// gives a batch back finds it unchanged.
#include "base/sizes.h"
#include "order/partition.h"
#include "tests/unit/delivery_fixture.h"

#define STEPS  100000
#define PLACES 3

struct model {
    struct fixture place[PLACES]; // the feed's ring, two pools
    uint64_t random;
    uint32_t lanes, next_owner;
    uint64_t granted[PLACES];
    uint32_t refused, restarted, copies_waited, warm;
};

static uint64_t roll(struct model *model, uint64_t sides) {
    return fixture_random(&model->random) % sides;
}

static struct fixture *any_place(struct model *model) {
    return &model->place[roll(model, PLACES)];
}

static struct consumer *any_consumer(struct model *model, struct fixture **place) {
    *place = any_place(model);
    return (*place)->consumers[roll(model, CONSUMERS_MOST)];
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

// ---- Joining, as it should turn out -----------------------------------------------------------------------

struct rank_view {
    uint32_t consumers, attached;
    bool granted, at_end;
    bool in_pool; // where somebody is already
    uint64_t slowest, fastest;
    uint32_t ranks_in_use;
};

static struct rank_view view_rank(const struct model *model, const struct fixture *place, uint32_t rank) {
    struct rank_view view = {.slowest = UINT64_MAX};
    uint64_t ranks = 0;
    for (int i = 0; i < PLACES * CONSUMERS_MOST; i++) {
        const struct consumer *consumer = model->place[i / CONSUMERS_MOST].consumers[i % CONSUMERS_MOST];
        if (!consumer)
            continue;
        view.attached++;
        ranks |= 1ull << consumer->lane->rank;
        if (consumer->lane->rank != rank)
            continue;
        view.consumers++;
        view.granted |= consumer->batches > 0;
        view.in_pool |= place->source && place->consumers[i % CONSUMERS_MOST] == consumer;
        view.at_end |= consumer_at_end(consumer);
        view.slowest = min_u64(view.slowest, consumer->cursor);
        view.fastest = max_u64(view.fastest, consumer->cursor);
    }
    view.ranks_in_use = (uint32_t)__builtin_popcountll(ranks);
    return view;
}

static struct start_position random_start(struct model *model) {
    const struct partition *partition = &model->place[0].delivery.partition;
    struct start_position start = {.given = roll(model, 2), .epoch = partition->start_epoch + roll(model, 4)};
    start.goes_back = start.given && roll(model, 8) == 0;
    start.consumed =
        roll(model, 5) ? roll(model, 6) * BATCH * partition->world_size : roll(model, partition->samples);
    if (start.epoch == partition->start_epoch && roll(model, 5))
        start.consumed += partition->start_sample;
    return start;
}

static void check_join(const struct rank_view *view, const struct consumer *consumer, int err,
                       const struct start_position *start, bool nowhere, uint64_t wanted) {
    if (nowhere) {
        assert_int_equal(err, -ESTALE);
    } else if (err) {
        assert_int_equal(err, -ESTALE); // the others have moved on
        assert_true(!start->goes_back && view->granted && (start->given || view->in_pool));
    } else {
        assert_true(consumer->prefetch >= 1);
        if (start->given)
            assert_int_equal(consumer->cursor, wanted);
        else if (view->consumers && !view->granted && !view->at_end)
            assert_true(consumer->cursor >= view->slowest && consumer->cursor <= view->fastest);
    }
}

static void step_join(struct model *model) {
    struct fixture *place = any_place(model);
    const struct delivery *delivery = &model->place[0].delivery;
    uint32_t rank = (uint32_t)roll(model, delivery->partition.world_size);
    struct start_position start = random_start(model);
    uint64_t epochs = roll(model, 3) ? delivery->partition.start_epoch + roll(model, 40) : 0, wanted = 0;
    struct rank_view view = view_rank(model, place, rank);
    if (view.attached >= CONSUMERS_MOST - 1)
        return;
    bool nowhere =
        start.given && partition_sequence(&delivery->partition, start.epoch, start.consumed, &wanted) < 0;
    bool full = !view.consumers && view.ranks_in_use == model->lanes;
    uint64_t read = atomic_load(&model->place[0].ring.control->queue_head);
    int err = 0;
    struct consumer *consumer = try_join(place, rank, epochs, &start, (uint32_t)roll(model, 8), &err);
    model->refused += err != 0;
    model->warm += consumer && consumer->lane->ready > 0 && read > 0;
    if (full && !nowhere)
        assert_int_equal(err, -ENOSPC);
    else
        check_join(&view, consumer, err, &start, nowhere, wanted);
}

static void step_leave(struct model *model) {
    struct fixture *place;
    struct consumer *consumer = any_consumer(model, &place);
    if (consumer)
        leave(place, consumer);
}

static void step_all_leave(struct model *model) {
    struct partition partition = random_partition(model);
    for (int i = 0; i < PLACES * CONSUMERS_MOST; i++) {
        struct fixture *place = &model->place[i / CONSUMERS_MOST];
        if (place->consumers[i % CONSUMERS_MOST])
            leave(place, place->consumers[i % CONSUMERS_MOST]);
    }
    check_everything(&model->place[0]);
    if (roll(model, 2) || partition_batches(&partition, partition.start_epoch + 1) == 0)
        return;
    for (int i = PLACES; i-- > 0;)
        delivery_restart(&model->place[i].delivery, &partition);
    model->restarted++;
}

// ---- Loaders and transfer processes -----------------------------------------------------------------------

static void step_claim(struct model *model) {
    struct fixture *place = any_place(model);
    for (uint64_t left = roll(model, 6); left > 0; left--)
        claim_one(place, model->next_owner + (place->source ? 0 : (uint32_t)roll(model, 3)));
}

static void step_finish(struct model *model) {
    struct fixture *place = any_place(model);
    for (uint64_t left = roll(model, 6); left > 0 && place->claim_count; left--) {
        uint32_t at = (uint32_t)roll(model, place->claim_count);
        if (!place->source || may_copy(place, &place->claims[at]))
            finish_claim(place, at);
        else
            model->copies_waited++;
    }
}

static void step_die(struct model *model) {
    replace_loader(any_place(model), model->next_owner++);
}

static void step_stream(struct model *model) {
    struct fixture *place = any_place(model);
    for (int i = 0; i < 8; i++) {
        uint64_t consumer = roll(model, CONSUMERS_MOST), slot = roll(model, SLOTS_MOST);
        place->words[consumer][slot] = place->released[consumer][slot];
    }
}

static void step_streams(struct model *model) {
    run_streams(any_place(model));
}

// ---- Consumers --------------------------------------------------------------------------------------------

static void step_take(struct model *model) {
    struct fixture *place;
    struct consumer *consumer = any_consumer(model, &place);
    if (consumer)
        model->granted[place - model->place] += take(place, consumer, 1 + (uint32_t)roll(model, 4));
}

static void step_release(struct model *model) {
    struct fixture *place;
    struct consumer *consumer = any_consumer(model, &place);
    if (consumer && consumer->held_count)
        give_back(place, consumer, (uint32_t)roll(model, consumer->held_count));
}

// Every consumer that holds all it may gives one back; then every rank must move, wherever its consumers are.
static void step_promise(struct model *model) {
    uint64_t moved[3] = {0}, waits[3] = {0};
    for (int i = 0; i < PLACES * CONSUMERS_MOST; i++) {
        struct fixture *place = &model->place[i / CONSUMERS_MOST];
        struct consumer *consumer = place->consumers[i % CONSUMERS_MOST];
        if (consumer && consumer->held_count == consumer->prefetch)
            give_back(place, consumer, (uint32_t)roll(model, consumer->held_count));
    }
    // A pool may have claims of several owners, one of which has died: any of them copies.
    settle(&model->place[0]);
    for (int i = 0; i < PLACES * CONSUMERS_MOST; i++) {
        struct fixture *place = &model->place[i / CONSUMERS_MOST];
        struct consumer *consumer = place->consumers[i % CONSUMERS_MOST];
        if (!consumer)
            continue;
        waits[consumer->lane->rank] += !consumer_at_end(consumer);
        uint32_t got = take(place, consumer, 1);
        moved[consumer->lane->rank] += got;
        model->granted[place - model->place] += got;
    }
    for (int rank = 0; rank < 3; rank++)
        if (waits[rank] && !moved[rank])
            fail_msg("rank %d is stuck", rank);
}

static void step_pump(struct model *model) {
    pump(&model->place[0]);
}

// ---- Runs -------------------------------------------------------------------------------------------------

static void run_model(uint64_t seed, uint32_t slots, uint32_t pool_slots, uint32_t lanes) {
    static const struct {
        void (*step)(struct model *);
        uint32_t weight;
    } steps[] = {{step_join, 8},    {step_leave, 4},   {step_all_leave, 1}, {step_claim, 40},
                 {step_finish, 40}, {step_die, 3},     {step_take, 50},     {step_release, 50},
                 {step_stream, 20}, {step_streams, 8}, {step_pump, 30},     {step_promise, 2}};
    struct model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    *model = (struct model){.random = seed, .lanes = lanes, .next_owner = 1};
    open_fixture(&model->place[0], slots, lanes,
                 &(struct partition){.samples = 40, .batch_size = BATCH, .world_size = 3});
    for (int i = 1; i < PLACES; i++)
        open_pool(&model->place[i], &model->place[0], pool_slots);
    for (int i = 0; i < STEPS; i++) {
        uint64_t at = roll(model, 256);
        size_t which = 0;
        while (at >= steps[which].weight)
            at -= steps[which++].weight;
        steps[which].step(model);
        check_everything(&model->place[0]);
    }
    print_message("seed %lu: %lu, %lu and %lu batches granted, %u joins refused, %u warm, %u restarts, %u "
                  "copies waited\n",
                  seed, model->granted[0], model->granted[1], model->granted[2], model->refused, model->warm,
                  model->restarted, model->copies_waited);
    for (int i = 0; i < PLACES; i++)
        assert_true(model->granted[i] > STEPS / 250);
    assert_true(model->refused > 10 && model->restarted > 2 && model->copies_waited > 10 && model->warm > 10);
    close_fixture(&model->place[0]);
    free(model);
}

static void test_one_rank(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        run_model(seed, 12, 8, 1);
}

static void test_ranks_that_share_all_rings(void **state) {
    (void)state;
    run_model(11, 13, 9, 2);
    run_model(12, 24, 16, 3);
}

static void test_pools_larger_than_the_ring(void **state) {
    (void)state;
    run_model(21, 5, 30, 1);
}

static void test_hardly_a_slot(void **state) {
    (void)state;
    run_model(31, 3, 2, 1);
    run_model(32, 2, 1, 1);
    run_model(33, 6, 3, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_ranks_that_share_all_rings),
        cmocka_unit_test(test_pools_larger_than_the_ring),
        cmocka_unit_test(test_hardly_a_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
