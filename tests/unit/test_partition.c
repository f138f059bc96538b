// How runs are cut into batches: every small run against a plain walk through it, then the far ends by hand.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "order/partition.h"

enum {
    EPOCHS = 3,
    MOST_SAMPLES = 17,
    MOST_BATCH = 5,
    MOST_WORLD = 5
};

// ---- a plain walk: no arithmetic but counting

struct walk {
    const struct partition *partition;
    uint64_t epoch, index, consumed; // the next global batch begins here
};

static struct walk walk_begin(const struct partition *partition) {
    return (struct walk){partition, partition->start_epoch, 0, partition->start_sample};
}

static uint64_t walk_rest(const struct walk *walk) {
    return walk->partition->samples - walk->consumed;
}

static bool walk_at_end(const struct walk *walk) {
    const uint64_t global = walk->partition->batch_size * walk->partition->world_size;
    return walk_rest(walk) == 0 || (walk->partition->drop_last && walk_rest(walk) < global);
}

// Samples of each rank in the next global batch, dealt one by one.
static uint64_t walk_deal(const struct walk *walk, uint64_t counts[MOST_WORLD]) {
    uint64_t dealt = 0;
    memset(counts, 0, MOST_WORLD * sizeof *counts);
    while (dealt < walk_rest(walk) &&
           counts[dealt % walk->partition->world_size] < walk->partition->batch_size)
        counts[dealt++ % walk->partition->world_size]++;
    return dealt;
}

static void walk_next_epoch(struct walk *walk) {
    walk->epoch++;
    walk->index = 0;
    walk->consumed = 0;
}

// ---- every small run

static void assert_places(const struct walk *walk, uint64_t sequence) {
    uint64_t counts[MOST_WORLD], position = walk->consumed;
    const uint64_t dealt = walk_deal(walk, counts);
    struct walk after = *walk;
    after.consumed += dealt;
    for (uint64_t rank = 0; rank < walk->partition->world_size; rank++) {
        struct batch_place place;
        assert_int_equal(partition_locate(walk->partition, rank, sequence, &place), 0);
        assert_int_equal(place.epoch, walk->epoch);
        assert_int_equal(place.index, walk->index);
        assert_int_equal(place.first_position, position);
        assert_int_equal(place.count, counts[rank]);
        assert_int_equal(place.consumed, walk->consumed + dealt);
        assert_int_equal(place.last_of_epoch, walk_at_end(&after));
        position += counts[rank];
    }
}

static void assert_sequence(const struct partition *partition, uint64_t epoch, uint64_t consumed,
                            uint64_t sequence) {
    uint64_t found = 12345;
    assert_int_equal(partition_sequence(partition, epoch, consumed, &found), 0);
    assert_int_equal(found, sequence);
}

static void assert_no_sequence(const struct partition *partition, uint64_t epoch, uint64_t consumed,
                               int status) {
    uint64_t found = 12345;
    assert_int_equal(partition_sequence(partition, epoch, consumed, &found), status);
    assert_int_equal(found, 12345);
}

static void assert_no_boundaries(const struct partition *partition, uint64_t epoch, uint64_t from,
                                 uint64_t to) {
    for (uint64_t consumed = from; consumed < to; consumed++)
        assert_no_sequence(partition, epoch, consumed, -ERANGE);
}

static void assert_run(const struct partition *partition) {
    uint64_t counts[MOST_WORLD], sequence = 0;
    struct walk walk = walk_begin(partition);
    while (walk.epoch < partition->start_epoch + EPOCHS) {
        if (walk_at_end(&walk)) {
            assert_int_equal(partition_batches(partition, walk.epoch), walk.index);
            for (uint64_t consumed = walk.consumed; consumed <= partition->samples; consumed++)
                assert_sequence(partition, walk.epoch, consumed, sequence);
            walk_next_epoch(&walk);
            continue;
        }
        assert_places(&walk, sequence);
        assert_sequence(partition, walk.epoch, walk.consumed, sequence);
        const uint64_t end = walk.consumed + walk_deal(&walk, counts);
        assert_no_boundaries(partition, walk.epoch, walk.consumed + 1, end);
        walk.consumed = end;
        walk.index++;
        sequence++;
    }
    assert_no_boundaries(partition, partition->start_epoch, 0, partition->start_sample);
    assert_no_sequence(partition, partition->start_epoch + 1, partition->samples + 1, -ERANGE);
}

// No epoch has room for one global batch, and what does not fill one is dropped.
static void assert_empty_run(const struct partition *partition) {
    struct batch_place place;
    assert_int_equal(partition_batches(partition, partition->start_epoch), 0);
    assert_int_equal(partition_batches(partition, partition->start_epoch + 1), 0);
    assert_int_equal(partition_locate(partition, 0, 0, &place), -ENODATA);
    assert_int_equal(partition_locate(partition, 0, UINT64_MAX, &place), -ENODATA);
    assert_no_sequence(partition, partition->start_epoch, partition->start_sample, -ENODATA);
}

static void for_each_small(void (*visit)(const struct partition *partition)) {
    struct partition partition = {.start_epoch = 7};
    for (partition.samples = 1; partition.samples <= MOST_SAMPLES; partition.samples++)
        for (partition.batch_size = 1; partition.batch_size <= MOST_BATCH; partition.batch_size++)
            for (partition.world_size = 1; partition.world_size <= MOST_WORLD; partition.world_size++)
                for (int drop_last = 0; drop_last < 2; drop_last++)
                    for (uint64_t start = 0; start <= partition.samples; start++) {
                        partition.drop_last = drop_last;
                        partition.start_sample = start;
                        visit(&partition);
                    }
}

static void assert_any_run(const struct partition *partition) {
    if (partition->drop_last && partition->samples < partition->batch_size * partition->world_size)
        assert_empty_run(partition);
    else
        assert_run(partition);
}

static void test_every_small_run(void **state) {
    (void)state;
    for_each_small(assert_any_run);
}

// ---- exactly once, seen from what ranks are given

// Marks what all ranks get of epoch `epoch` up to `until` consumed; every rank gets the same number of batches.
static uint64_t deliver(const struct partition *partition, uint64_t epoch, uint64_t until, uint8_t *seen) {
    uint64_t consumed = epoch == partition->start_epoch ? partition->start_sample : 0;
    uint64_t first;
    if (partition_sequence(partition, epoch, consumed, &first) < 0)
        return consumed;
    for (uint64_t batch = 0; batch < partition_batches(partition, epoch) && consumed < until; batch++)
        for (uint64_t rank = 0; rank < partition->world_size; rank++) {
            struct batch_place place;
            assert_int_equal(partition_locate(partition, rank, first + batch, &place), 0);
            assert_int_equal(place.epoch, epoch);
            assert_true(place.count <= partition->batch_size);
            for (uint64_t at = 0; at < place.count; at++)
                seen[place.first_position + at]++;
            consumed = place.consumed;
        }
    return consumed;
}

static void assert_each_once(const uint8_t *seen, uint64_t samples, uint64_t delivered) {
    for (uint64_t position = 0; position < samples; position++)
        assert_int_equal(seen[position], position < delivered);
}

// A run that stops at any boundary continues with any other world size, and the epoch is complete.
static void assert_resumes(const struct partition *partition) {
    if (partition->start_sample != 0)
        return;
    const uint64_t global = partition->batch_size * partition->world_size;
    for (uint64_t until = 0; until <= partition->samples; until += global)
        for (uint64_t world_size = 1; world_size <= MOST_WORLD; world_size++) {
            uint8_t seen[MOST_SAMPLES] = {0};
            struct partition rest = *partition;
            rest.start_sample = deliver(partition, partition->start_epoch, until, seen);
            rest.world_size = world_size;
            const uint64_t delivered = deliver(&rest, rest.start_epoch, UINT64_MAX, seen);
            assert_each_once(seen, partition->samples, delivered);
            const uint64_t left = partition->samples - delivered;
            assert_true(partition->drop_last ? left < partition->batch_size * world_size : left == 0);
        }
}

static void test_resume_with_another_world_size(void **state) {
    (void)state;
    for_each_small(assert_resumes);
}

static void assert_even(const struct partition *partition) {
    for (uint64_t batch = 0; batch < partition_batches(partition, partition->start_epoch); batch++) {
        struct batch_place first, last;
        assert_int_equal(partition_locate(partition, 0, batch, &first), 0);
        assert_int_equal(partition_locate(partition, partition->world_size - 1, batch, &last), 0);
        assert_true(first.count - last.count <= 1);
        assert_true(!partition->drop_last || last.count == partition->batch_size);
    }
}

static void test_ranks_differ_by_one_at_most(void **state) {
    (void)state;
    for_each_small(assert_even);
}

// ---- the far ends

static void test_far_sequences(void **state) {
    (void)state;
    const struct partition partition = {
        .samples = 1000, .batch_size = 30, .world_size = 4, .start_epoch = 5, .start_sample = 880};
    struct batch_place place;
    // One batch of the first epoch, then nine an epoch, the last with a tail of 40.
    assert_int_equal(partition_locate(&partition, 3, 1 + 9 * UINT64_C(1000000000000000000) + 8, &place), 0);
    assert_int_equal(place.epoch, 6 + UINT64_C(1000000000000000000));
    assert_int_equal(place.index, 8);
    assert_int_equal(place.first_position, 990);
    assert_int_equal(place.count, 10);
    assert_int_equal(place.consumed, 1000);
    assert_true(place.last_of_epoch);
    assert_sequence(&partition, place.epoch, 960, 1 + 9 * UINT64_C(1000000000000000000) + 8);
    assert_sequence(&partition, place.epoch, 1000, 1 + 9 * UINT64_C(1000000000000000001));
    assert_no_sequence(&partition, UINT64_MAX, 0, -ERANGE);    // beyond 64 bits of sequence
    assert_no_sequence(&partition, UINT64_MAX, 1000, -ERANGE); // no epoch follows
}

static void test_last_epoch(void **state) {
    (void)state;
    const struct partition partition = {
        .samples = 10, .batch_size = 5, .world_size = 1, .start_epoch = UINT64_MAX - 1};
    struct batch_place place = {.count = 77};
    assert_int_equal(partition_locate(&partition, 0, 3, &place), 0);
    assert_int_equal(place.epoch, UINT64_MAX);
    place.count = 77;
    assert_int_equal(partition_locate(&partition, 0, 4, &place), -ERANGE);
    assert_int_equal(partition_locate(&partition, 0, UINT64_MAX, &place), -ERANGE);
    assert_int_equal(place.count, 77);
}

static void test_huge_batches(void **state) {
    (void)state;
    struct partition partition = {
        .samples = UINT64_C(1) << 63, .batch_size = UINT64_C(1) << 40, .world_size = UINT64_C(1) << 30};
    struct batch_place place;
    assert_int_equal(partition_batches(&partition, 0), 1);
    assert_int_equal(partition_locate(&partition, partition.world_size - 1, 0, &place), 0);
    assert_int_equal(place.count, UINT64_C(1) << 33);
    assert_int_equal(place.first_position + place.count, partition.samples);
    assert_true(place.last_of_epoch);
    assert_sequence(&partition, 0, 0, 0);
    assert_sequence(&partition, 0, partition.samples, 1);
    assert_no_sequence(&partition, 0, 1, -ERANGE);
    partition.drop_last = true;
    assert_int_equal(partition_locate(&partition, 0, 0, &place), -ENODATA);
    partition.batch_size = 3;
    partition.world_size = 7;
    const uint64_t batches = (UINT64_C(1) << 63) / 21;
    assert_int_equal(partition_locate(&partition, 6, batches - 1, &place), 0);
    assert_int_equal(place.first_position, batches * 21 - 3);
    assert_true(place.last_of_epoch);
}

static void test_world_larger_than_tail(void **state) {
    (void)state;
    const struct partition partition = {.samples = 3, .batch_size = 2, .world_size = UINT64_MAX};
    struct batch_place place;
    assert_int_equal(partition_locate(&partition, 2, 0, &place), 0);
    assert_int_equal(place.first_position, 2);
    assert_int_equal(place.count, 1);
    assert_int_equal(partition_locate(&partition, UINT64_MAX - 1, 0, &place), 0);
    assert_int_equal(place.first_position, 3);
    assert_int_equal(place.count, 0);
}

static void test_end_of_the_epoch_before(void **state) {
    (void)state;
    struct partition partition = {.samples = 10, .batch_size = 4, .world_size = 1, .start_epoch = 3};
    assert_sequence(&partition, 2, 10, 0); // token of a finished epoch: the start of the next
    assert_no_sequence(&partition, 2, 8, -ERANGE);
    assert_no_sequence(&partition, 1, 10, -ERANGE);
    partition.drop_last = true;
    assert_sequence(&partition, 2, 8, 0);
    assert_no_sequence(&partition, 2, 4, -ERANGE);
    partition.start_sample = 4;
    assert_no_sequence(&partition, 2, 10, -ERANGE); // the run begins later than that
    partition = (struct partition){.samples = 10, .batch_size = 4, .world_size = 1};
    assert_no_sequence(&partition, UINT64_MAX, 10, -ERANGE); // epoch 0 does not follow the last one
}

// A run before this one may have been cut otherwise: what it left of an epoch is dropped if it is less than a batch.
static void test_what_another_run_left_of_the_epoch_before(void **state) {
    (void)state;
    const struct partition partition = {
        .samples = 10, .batch_size = 2, .world_size = 2, .drop_last = true, .start_epoch = 3};
    assert_sequence(&partition, 2, 7, 0);
    assert_sequence(&partition, 2, 9, 0);
    assert_no_sequence(&partition, 2, 6, -ERANGE); // a whole batch
    const struct partition last = {
        .samples = 10, .batch_size = 4, .world_size = 1, .drop_last = true, .start_epoch = UINT64_MAX};
    assert_sequence(&last, UINT64_MAX, 4, 1);
    assert_no_sequence(&last, UINT64_MAX, 8, -ERANGE); // no epoch follows
}

static void test_start_beyond_the_end(void **state) {
    (void)state;
    const struct partition partition = {
        .samples = 10, .batch_size = 4, .world_size = 1, .start_epoch = 3, .start_sample = 11};
    struct batch_place place;
    assert_int_equal(partition_batches(&partition, 3), 0);
    assert_int_equal(partition_locate(&partition, 0, 0, &place), 0);
    assert_int_equal(place.epoch, 4);
    assert_int_equal(place.first_position, 0);
}

static void test_unusable(void **state) {
    (void)state;
    const struct partition broken[] = {
        {.samples = 0, .batch_size = 4, .world_size = 1},
        {.samples = 10, .batch_size = 0, .world_size = 1},
        {.samples = 10, .batch_size = 4, .world_size = 0},
    };
    struct batch_place place;
    for (size_t at = 0; at < COUNT_OF(broken); at++) {
        assert_int_equal(partition_batches(&broken[at], 0), 0);
        assert_int_equal(partition_locate(&broken[at], 0, 0, &place), -EINVAL);
        assert_no_sequence(&broken[at], 0, 0, -EINVAL);
    }
    const struct partition sound = {.samples = 10, .batch_size = 4, .world_size = 2};
    assert_int_equal(partition_locate(&sound, 2, 0, &place), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_run),
        cmocka_unit_test(test_resume_with_another_world_size),
        cmocka_unit_test(test_ranks_differ_by_one_at_most),
        cmocka_unit_test(test_far_sequences),
        cmocka_unit_test(test_last_epoch),
        cmocka_unit_test(test_huge_batches),
        cmocka_unit_test(test_world_larger_than_tail),
        cmocka_unit_test(test_end_of_the_epoch_before),
        cmocka_unit_test(test_what_another_run_left_of_the_epoch_before),
        cmocka_unit_test(test_start_beyond_the_end),
        cmocka_unit_test(test_unusable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
